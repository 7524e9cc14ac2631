// Package virtual is a transport between peers of one process in which time is simulated: each peer has a clock, and a model of
// package simulate says how long messages take. It is a discrete event simulation of the network below whole processes.
//
//	hub, err := virtual.NewHub(simulate.DefaultModel, nodeOf, nil)
//	d, err := hub.Transport().Open(ctx, &fabric.Config{Self: self, Size: len(nodeOf), Wake: wake})
//	...
//	now := hub.Now(self)
//
// # Time
//
// A message, Read or Write costs its sender the overhead of the model. It then waits for the links, moves over them, and arrives.
// The hub holds it until every peer sleeps (after Arm), or polls in vain. Then nothing can happen before the earliest event, so
// the hub delivers that one: the clock of its receiver becomes the time of the arrival, if that is later, plus the overhead. The
// receiver runs until it sleeps again. Whatever a peer does between two events takes no time. So only one peer runs at a time,
// after the start, and equal programs have equal times in every run.
//
// A Read costs a request to the peer, and the transfer of the bytes back. A Write is done when its bytes have arrived and an
// acknowledgement has come back. The end of a peer is an event like a message of no bytes, and takes the same links, so it
// follows what the peer has sent.
//
// # Limits
//
// A peer that waits for another one in any other way than by Poll and Arm stops the simulation. A peer that only waits until its
// clock has moved waits for ever: no event moves it. The tests of package fabrictest do the first, so this transport does not run
// them. Each event is allocated.
//
// The memory that peers Read and Write is that of fabric/mem. Peers have no shared memory, as if each were a process in a
// container of its own.
package virtual
