// Package fabric is the seam between protocols and the ways bytes can travel.
//
// A [Transport] opens a [Domain]: one process's membership in a set of peers that reach each other the same way, over
// shared memory, TCP or RDMA. A domain connects [Endpoint] values, one per peer, and is polled for [Event] values.
// The words of this floor are peer, endpoint, region and event; it knows nothing of ranks, tags or messages that wait
// for a receiver.
//
//	d, err := transport.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//	for ep.Send(header, payload) == fabric.ErrAgain {
//		n, err := d.Poll(events) // make room, and take what arrived
//		...
//	}
//
// Rules that every transport keeps, and that package fabrictest checks:
//
//   - Send copies: when it returns nil, header and payload may be reused at once. It never blocks and never queues
//     without bound; a full window is [ErrAgain], and nothing of that message was sent.
//   - Messages of one endpoint arrive in the order they were sent, each once, whole.
//   - Bytes in [Event.Data] are lent until the next Poll of that domain.
//   - A Read or Write moves bytes without the peer's program taking part. It has finished when the call reported done,
//     or when an event carried its token; exactly one of the two happens unless the call returned an error.
//   - A peer that is lost is told once, by an event of kind [PeerDown]; its endpoint then answers [ErrPeerDown].
//
// Concurrency: the methods of one domain and of its endpoints are called by one goroutine at a time; the caller
// serialises them. Read and Write of an endpoint are the exception: they may run beside calls to other methods,
// so that no lock is held across the system call that moves a large block.
package fabric
