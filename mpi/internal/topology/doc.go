// Package topology has the virtual topologies of communicators, and maps them to hardware.
//
// A [Cart] is a grid of ranks, and a [Graph] lists the neighbors of each rank. Both are plain values without communication.
//
// [Map] finds which process should have which rank, so that ranks which exchange messages share a node, a NUMA node, a cache or a
// core. It is a pure function of the [Place] of each process and of the [Links] between the ranks:
//
//	places := []topology.Place{{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 2}, {1, 0, 0, 2}} // two nodes, alternating
//	grid, err := topology.NewCart([]int{2, 2}, nil, 4)
//	order := topology.Map(grid.Links(), grid, places) // [0 2 1 3]: new rank 1 is the second process of the first node
package topology
