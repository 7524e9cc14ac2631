// Package nldev has the numbers of RDMA netlink, by which the kernel tells which devices there are in this network namespace, and
// which file and driver each has. It is data only; the comments name the kernel's constants, and a test compares them.
//
// A message is of type Client<<10 + a command. Its payload is a list of attributes as everywhere in netlink.
package nldev
