// Package cm is the protocol by which two processes connect their queue pairs, without input or
// output: what they tell each other, and the state machine of one side. The names are those of the
// InfiniBand communication manager.
//
// A process publishes its [Address]. It sends the datagrams, each a [Message], to the queue pairs
// for datagrams that the address of the peer names. [Handshake] decides what a datagram requires.
// Bytes from the network are not trusted: [ParseMessage] accepts only what is authenticated with
// the key of the job.
//
// # Files
//
//	address.go      what a process publishes: its rails, their partitions and queue pairs for datagrams
//	link.go         what processes with domains in several subnets compare
//	partition.go    the InfiniBand partition that two ports use with each other
//	lane.go         rails and paths, and the queue pairs of a connection, which use one each;
//	                which of them are left out
//	message.go      the datagrams
//	reason_text.go  reasons in datagrams, as text
//	handshake.go    the state machine
//
// # Locks
//
// There are none. Addresses and messages are values; a Handshake belongs to the goroutine that
// calls Poll of its domain.
package cm
