// Package explain is the command `ibrun explain`. It shows how messages of a size travel, and why.
//
//	ibrun explain 8,64K,1M
//	ibrun explain 1M --transport rdma --json
//
// It prints each transport of this machine with its limits and settings and their sources, then a line per size: the protocol,
// the number of pieces, and the limit that decided. With --json it prints the same as one array. Run it on the node of the
// ranks and with their environment, because it reads the devices and the variables of its own process.
package explain
