// Package topo is `ibrun topo`: it shows what this node is made of, and where the ranks of a job would run on it.
//
//	ibrun topo                            a picture, and what lies between cores, NICs and GPUs
//	ibrun topo -n 8 --map-by numa         the same with the ranks of such a job
//	ibrun topo --svg FILE                 the picture as a drawing
//	ibrun topo --json                     all of it, for programs: the JSON of hw.Topology
//	ibrun topo --capture FILE             writes down what was read, for ibrun topo --input and lstopo --input
//	ibrun topo --input FILE|DIR           shows a machine that was captured
//
// The picture is drawn twice, as text and as SVG, from one tree of boxes.
package topo
