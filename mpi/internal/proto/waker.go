package proto

import "github.com/ibrun/ibrun/mpi/internal/proto/internal/parker"

// Waker wakes an engine that sleeps on a domain without a descriptor. It must be created before the
// domain, whose Config needs its Wake method.
type Waker struct{ channel parker.Channel }

// NewWaker returns a waker.
func NewWaker() Waker { return Waker{parker.NewChannel()} }

// Wake wakes the goroutine that sleeps, or prevents the next sleep. Any goroutine may call it.
func (w Waker) Wake() { w.channel.Wake() }
