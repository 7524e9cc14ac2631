// Package devices chooses the RDMA devices that a domain uses.
//
// # Files
//
//	network.go    where devices come from: this machine, or a simulated network
//	candidate.go  the ports that may be used, the best first
//	subnet.go     what the user demands of a port, and which network it is connected to
//	selection.go  which ports are used together, and which of them take the place of others
//	error.go      why a device cannot be used
//
// # Locks
//
// There are none. All values are made while a domain is opened, by one goroutine.
package devices
