// Package simulate runs the collective algorithms of package mpi between thousands of simulated ranks in one process, and
// computes how long they would take on a cluster.
//
//	results, err := simulate.Run(simulate.Config{Ranks: 4096, RanksPerNode: 64}, "allreduce", 1<<20)
//
// Every rank runs the code of the algorithm that a real rank runs, on real buffers, and the results are checked. Only messages
// and time are simulated. Each rank has a clock. A [Model] says how long a message takes, between ranks of one node and between
// nodes; the ranks of a node share its link to the network. The rank with the earliest clock runs first, so results are always
// the same.
//
// The model has no noise, no congestion between nodes, and no limit of the memory bandwidth of a node: it compares algorithms,
// and does not predict a machine exactly. The algorithms over shared memory within a node are not simulated.
package simulate
