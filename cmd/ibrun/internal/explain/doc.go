// Package explain is the command `ibrun explain`: how messages of a size travel, and why.
//
//	ibrun explain 8,64K,1M
//	ibrun explain 1M --transport rdma --json
//
// It prints each transport of this machine with the limits in force and where they come from, then a line per size: the
// protocol, in how many pieces, and the limit that decided. With --json it prints the same as one array. Run it where the ranks
// run and with their environment: devices and variables are looked at here.
package explain
