// Package topo is the command `ibrun topo`. It shows the topology of this node, and where the ranks of a job would run on it.
//
//	ibrun topo                            a picture, and the paths between cores, NICs and GPUs
//	ibrun topo -n 8 --map-by numa         the same with the ranks of this job
//	ibrun topo --svg FILE                 the picture as a drawing
//	ibrun topo --json                     everything as JSON of hw.Topology
//	ibrun topo --capture FILE             writes the files that were read, for ibrun topo --input and lstopo --input
//	ibrun topo --input FILE|DIR           shows a captured machine
//
// Text and SVG are drawn from the same tree of components.
package topo
