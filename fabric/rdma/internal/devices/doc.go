// Package devices chooses the RDMA devices that a domain uses, opens them, and creates the objects
// that all connections over a device share. Devices differ in their limits by factors of a
// thousand, and some limits show only when an object is created. So a device is asked once, when it
// is opened, see [Demand] and [Grant]. It knows nothing of connections, messages and transfers.
//
// # Files
//
//	network.go    where devices come from: this machine, or a simulated network
//	candidate.go  the ports that may be used, the best first
//	choice.go     what the user demands of a port, and which ports are excluded because they lack it
//	subnet.go     which network a port is connected to
//	selection.go  which ports are used together, and which of them take the place of others
//	rail.go       an open device, its completion queues, and its queue pairs for connections
//	rails.go      the devices of a domain
//	events.go     what devices report without being asked
//	grant.go      what a device grants of what it is asked for
//	partition.go  InfiniBand partitions of a port
//	datagram.go   the queue pairs for datagrams
//	address.go    the address of a port, which the network may change, and which peers it reaches
//	error.go      why a device cannot be used
//
// # Locks
//
// There are none. A [Rail] and [Events] belong to the goroutine that calls Poll of their domain.
// Another goroutine may call RestartUD, Keys and SharedPartition, which read only what is constant.
// Those of Events only read from the device, and send to a channel.
package devices
