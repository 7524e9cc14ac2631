package hook

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Pusher   = pusher{}
	_ fabric.Gatherer = (*endpoint)(nil)
)

// endpoint is a wrapped endpoint.
type endpoint struct {
	inner fabric.Endpoint
	d     *Domain
	peer  int
	ended atomic.Pointer[error] // why this package disconnected the peer; nil: it did not
}

func (e *endpoint) Send(header, payload []byte) error {
	return e.inject(len(header)+len(payload), func() error { return e.inner.Send(header, payload) })
}

// SendFrom injects the faults of Send. It packs the payload for an endpoint that does not gather.
func (e *endpoint) SendFrom(header []byte, src fabric.Source, from int64, n int) error {
	if to, ok := e.inner.(fabric.Gatherer); ok {
		return e.inject(len(header)+n, func() error { return to.SendFrom(header, src, from, n) })
	}
	payload := make([]byte, n)
	if got := src.Pack(payload, from); got != n {
		return fmt.Errorf("fabric/hook: the source has %d bytes from byte %d on instead of %d", got, from, n)
	}
	return e.Send(header, payload)
}

// pusher is an endpoint that wraps a fabric.Pusher.
type pusher struct {
	*endpoint
	inner fabric.Pusher
}

// Push injects the faults of Send into a message. A delayed message may arrive too late for the pushed bytes.
func (p pusher) Push(header []byte, src fabric.RemoteKey, n int) error {
	return p.inject(len(header), func() error { return p.inner.Push(header, src, n) })
}

// inject injects faults into a message of n bytes, or sends it by forward.
func (e *endpoint) inject(n int, forward func() error) error {
	d := e.d
	if why := e.ended.Load(); why != nil {
		return *why
	}
	if n > d.maxSend || d.down[e.peer] || d.closed {
		return forward() // which returns an error
	}
	if !d.asleep { // a user that sleeps next would not notice an injected fault
		switch {
		case d.random.happens(d.opts.Again):
			d.counters.ForcedAgain++
			d.forced = true
			return fabric.ErrAgain
		case d.random.happens(d.opts.Drop):
			d.counters.Dropped++
			d.disconnect(e.peer, fmt.Errorf("fabric/hook: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, ErrInjected))
			return nil
		case d.random.happens(d.opts.Cut):
			d.Cut(e.peer)
		}
	}
	if d.cut[e.peer].Load() {
		d.counters.CutSends++
		return nil
	}
	err := forward()
	switch err {
	case nil:
		d.counters.Sends++
		d.counters.SentBytes += uint64(n)
	case fabric.ErrAgain:
		d.counters.Again++
	}
	return err
}

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	plan := e.choose(func(c *Counters) { c.Reads++; c.ReadBytes += uint64(len(dst)) })
	if plan == proceed || plan == completeLater {
		done, err := e.inner.Read(dst, local, src, token)
		return e.complete(plan, token, done, err)
	}
	return e.complete(plan, token, false, nil)
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	plan := e.choose(func(c *Counters) { c.Writes++; c.WrittenBytes += uint64(len(src)) })
	if plan == proceed || plan == completeLater {
		done, err := e.inner.Write(src, local, dst, token)
		return e.complete(plan, token, done, err)
	}
	return e.complete(plan, token, false, nil)
}

// action is what to do with a Read or Write.
type action int

const (
	proceed       action = iota // pass it on
	completeLater               // pass it on, and report its completion by an event
	failNow                     // fail immediately
	failLater                   // fail by an event
	neverComplete               // never complete
	peerIsDown                  // return the error of the lost peer
)

// choose chooses an action, and calls count.
func (e *endpoint) choose(count func(*Counters)) action {
	b := &e.d.shared
	b.Lock()
	defer b.Unlock()
	count(&b.counters)
	switch {
	case e.ended.Load() != nil:
		return peerIsDown
	case e.d.cut[e.peer].Load():
		return neverComplete
	case b.asleep:
		return proceed
	case b.random.happens(e.d.opts.Fail):
		return failNow + action(b.random.IntN(2))
	case b.random.happens(e.d.opts.Async):
		return completeLater
	}
	return proceed
}

// complete carries out an action, given the results of the wrapped endpoint. If the user has gone to sleep meanwhile, it
// returns the result immediately instead of by an event.
func (e *endpoint) complete(p action, token uint64, done bool, err error) (bool, error) {
	b := &e.d.shared
	b.Lock()
	defer b.Unlock()
	switch p {
	case peerIsDown:
		return false, *e.ended.Load()
	case failNow, failLater:
		b.counters.Failed++
		err = fmt.Errorf("fabric/hook: transfer with peer %d: %w", e.peer, ErrInjected)
		if p == failLater && !b.asleep {
			b.injected = append(b.injected, fabric.Event{Kind: fabric.Done, Peer: int32(e.peer), Token: token, Err: err})
			return false, nil
		}
	case completeLater:
		if done && err == nil && !b.asleep {
			b.counters.Async++
			b.injected = append(b.injected, fabric.Event{Kind: fabric.Done, Peer: int32(e.peer), Token: token})
			return false, nil
		}
	}
	return done, err
}

func (e *endpoint) Close() error {
	d := e.d
	if !d.down[e.peer] {
		d.down[e.peer] = true
		d.pending -= len(d.queues[e.peer])
		d.queues[e.peer] = nil
	}
	return e.inner.Close()
}
