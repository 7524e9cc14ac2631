// Package rdma joins peers over RDMA: InfiniBand, RoCE and Soft-RoCE, by reliable connections of package verbs.
//
//	t := &rdma.Transport{Key: secret}
//	d, err := t.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//
// # Connections
//
// A pair of peers is connected when one of them first sends, reads or writes. They agree by two datagrams, which are sent
// again until they are answered: who asks proposes a queue pair, who answers names its own. If both ask, the lower number's
// request counts. The first message over the connection tells who answered that it stands.
//
// Datagrams carry an HMAC-SHA-256 with the job's key over everything in them, both peers' numbers and both incarnations
// included: what an earlier run, another job or a stranger sends changes nothing. What follows over the connection is
// neither encrypted nor authenticated; the network is trusted not to change packets.
//
// A connection that breaks is made again under the next epoch. Each side says which message it expects next, and gets what
// was sent and not acknowledged once more. Reads and writes begin anew, which changes nothing.
//
// # Messages
//
// A message is copied into a slot of registered memory, sent from there into a slot of the receiver's, and lent to the
// caller of Poll. Receiving slots are posted to one queue that all connections share. A peer may send as many messages as it
// was granted; grants travel in the header of every message, or in one of their own. Each connection begins with one slot
// for messages and one for a grant or a goodbye. Who uses all that it has is granted more, up to a window and what the pool
// holds. So there is always a slot posted for what arrives, and a receiver-not-ready never happens.
//
// # Reads and writes
//
// Read and Write are RDMA READ and WRITE between the callers' own registered memory, in pieces of a bounded size, and over
// all rails when there are several and it is long enough: rail i of one peer with rail i of the other.
//
// # Loss
//
// A peer that closes says so. To one that has not been heard of for half a second a write of no bytes goes out, which the
// peer's device answers, or its kernel: so a peer that computes, or is stopped, is not lost. After five times half a second
// without an answer it is. If much else waits before that write, the connection is made again after ten seconds, with less
// under way. A peer whose connection broke, and whose process then answers no request for half a minute, is lost as well.
//
//	wire.go         the header of messages
//	address.go      what peers know of each other from the start
//	greeting.go     the datagrams
//	handshake.go    who connects to whom under which epoch: no input or output
//	credit.go       who may send how much: no input or output
//	slots.go        registered memory for messages
//	pacer.go        how much of reads and writes is under way: no input or output
//	rail.go         a device and its queues
//	queue.go        a queue pair and what is under way on it
//	domain.go       polling
//	connect.go      making connections, and making them again
//	endpoint.go     sending
//	transfer.go     Read and Write
//	over.go         the same over one rail
//	region.go       registered memory of the caller's
//	alive.go        time: heartbeats and what is sent again
//	sleep_linux.go  the descriptor to sleep on
package rdma
