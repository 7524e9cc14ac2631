// Package datagrams sends and receives the datagrams of package cm, over the queue pairs of package
// devices.
//
//   - [Socket] has the queue pairs of the connection manager. Its caller passes it their
//     completions, and takes the datagrams that have arrived.
//   - [Resolver] makes the destinations to which they are sent. That may ask the network for the
//     host of a peer, so it does not block its caller for long.
//   - [Responder] answers probes, by which peers ask whether this process exists, without its
//     caller.
//   - [Manager] joins them with the address of this process.
//
// What a datagram means, and which one is sent when, is not known here.
//
// # Addresses that change
//
// The address of a port is not constant. A subnet manager may give it another LID or subnet prefix,
// or move the keys of its partitions; a RoCE port may get another GID, and the host another MAC
// address. The revision in an address tells which of two is the later one. A destination depends on
// the address of the peer, which [Manager.Renew] replaces, and on our own, which [Manager.Refresh]
// renews. It is made again when one of them has changed, and when it may have: see [Remote.Renew].
//
// # Files
//
//	manager.go      all that a domain has of these, and its own address
//	socket.go       sends and receives
//	destination.go  where datagrams to a peer go
//	remote.go       a peer as datagrams reach it
//	resolver.go     makes destinations in goroutines
//	responder.go    answers probes
//
// # Locks
//
// There are none. [Manager], [Socket], [Resolver] and [Remote] belong to the goroutine that calls
// Poll of their domain. A goroutine of the Resolver has only its resolution and the channel by
// which it returns that. The Responder belongs to its own goroutine from Start to Close, which with
// Readdress and QueuePairs may be called meanwhile.
package datagrams
