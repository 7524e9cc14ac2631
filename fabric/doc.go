// Package fabric is the interface between message protocols and transports.
//
// A [Transport] opens a [Domain]: one process's membership in a set of peers that are reached by the same transport, over
// shared memory, TCP or RDMA. A domain connects [Endpoint] values, one per peer, and is polled for [Event] values.
// The terms of this layer are peer, endpoint, region and event; it has no ranks, no tags and no posted receives.
//
//	d, err := transport.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//	for ep.Send(header, payload) == fabric.ErrAgain {
//		n, err := d.Poll(events) // make room, and receive what arrived
//		...
//	}
//
// # Rules
//
// Every transport keeps these rules; package fabrictest checks them:
//
//   - Send never blocks and never queues without bound. If the window is full it returns [ErrAgain], and nothing of that message
//     was sent.
//   - Messages of one endpoint arrive in the order they were sent, each once, whole.
//   - A Read or Write moves bytes without the peer's program taking part. It has finished when the call reported done,
//     or when an event carried its token; exactly one of the two happens unless the call returned an error.
//   - The loss of a peer is reported once, by an event of kind [PeerDown]; its endpoint then returns [ErrPeerDown].
//
// # Buffer ownership
//
//   - Send copies: when it returns, the caller may reuse header and payload immediately.
//   - Received bytes, [Event.Data], belong to the domain. They are valid until the next Poll or Arm of that domain; a caller that
//     needs them longer copies them.
//   - The caller of Read or Write must not touch the local bytes until the transfer has finished.
//   - Registered memory belongs to the caller of Register, which keeps it alive and in place until Deregister.
//   - The bytes of a [Segment] are valid until its Close.
//
// # Concurrency
//
// The methods of one domain and of its endpoints are called by one goroutine at a time; the caller serialises them. Read and
// Write of an endpoint are the exception: they may run concurrently with other methods, so that no lock is held across the system
// call that moves a large block.
package fabric
