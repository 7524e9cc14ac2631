// Package nldev has the numbers of RDMA netlink, through which the kernel lists the devices of this network namespace, with the
// file and driver of each. It is data only; the comments name the kernel's constants, and a test compares them.
//
// A message is of type Client<<10 + a command. Its payload is a list of attributes as everywhere in netlink.
package nldev
