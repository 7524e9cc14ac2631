package hook

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Pusher   = pusher{}
)

// endpoint is a wrapped endpoint.
type endpoint struct {
	inner fabric.Endpoint
	d     *Domain
	peer  int
	ended atomic.Pointer[error] // what this package lost the peer by
}

func (e *endpoint) Stream() int { return e.inner.Stream() }

func (e *endpoint) Send(header, payload []byte) error {
	return e.send(header, payload, e.inner.Send)
}

// pusher is an endpoint that wraps a fabric.Pusher.
type pusher struct {
	*endpoint
	to fabric.Pusher
}

// Push does to a message what Send does, which may make it come too late for what goes along.
func (p pusher) Push(header []byte, src fabric.RemoteKey, n int) error {
	return p.send(header, nil, func(header, _ []byte) error { return p.to.Push(header, src, n) })
}

// send decides what becomes of a message that goes by way.
func (e *endpoint) send(header, payload []byte, way func(header, payload []byte) error) error {
	d, n := e.d, len(header)+len(payload)
	if why := e.ended.Load(); why != nil {
		return *why
	}
	if n > d.max || d.told[e.peer] || d.closed {
		return way(header, payload) // which fails
	}
	if !d.asleep { // a user who sleeps next would not hear of it
		switch {
		case d.chance.of(d.o.Again):
			d.counters.ForcedAgain++
			d.forced = true
			return fabric.ErrAgain
		case d.chance.of(d.o.Drop):
			d.counters.Dropped++
			d.lose(e.peer, fmt.Errorf("fabric/hook: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, ErrInjected))
			return nil
		case d.chance.of(d.o.Cut):
			d.Cut(e.peer)
		}
	}
	if d.cut[e.peer].Load() {
		d.counters.Swallowed++
		return nil
	}
	err := way(header, payload)
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
	plan := e.decide(func(c *Counters) { c.Reads++; c.ReadBytes += uint64(len(dst)) })
	if plan == proceed || plan == delayEnd {
		done, err := e.inner.Read(dst, local, src, token)
		return e.conclude(plan, token, done, err)
	}
	return e.conclude(plan, token, false, nil)
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	plan := e.decide(func(c *Counters) { c.Writes++; c.WrittenBytes += uint64(len(src)) })
	if plan == proceed || plan == delayEnd {
		done, err := e.inner.Write(src, local, dst, token)
		return e.conclude(plan, token, done, err)
	}
	return e.conclude(plan, token, false, nil)
}

// plan is what is to become of a Read or Write.
type plan int

const (
	proceed  plan = iota // nothing
	delayEnd             // its end is told by an event
	failNow              // it fails at once
	failLate             // it fails by an event
	vanish               // it never ends
	refuse               // the peer is lost
)

// decide makes a plan, and counts by count what is started.
func (e *endpoint) decide(count func(*Counters)) plan {
	b := &e.d.beside
	b.Lock()
	defer b.Unlock()
	count(&b.counters)
	switch {
	case e.ended.Load() != nil:
		return refuse
	case e.d.cut[e.peer].Load():
		return vanish
	case b.asleep:
		return proceed
	case b.chance.of(e.d.o.Fail):
		return failNow + plan(b.chance.IntN(2))
	case b.chance.of(e.d.o.Late):
		return delayEnd
	}
	return proceed
}

// conclude carries a plan out, given what the wrapped endpoint said. A user who has gone to sleep meanwhile is told
// at once.
func (e *endpoint) conclude(p plan, token uint64, done bool, err error) (bool, error) {
	b := &e.d.beside
	b.Lock()
	defer b.Unlock()
	switch p {
	case refuse:
		return false, *e.ended.Load()
	case failNow, failLate:
		b.counters.Failed++
		err = fmt.Errorf("fabric/hook: transfer with peer %d: %w", e.peer, ErrInjected)
		if p == failLate && !b.asleep {
			b.news = append(b.news, fabric.Event{Kind: fabric.Done, Peer: int32(e.peer), Token: token, Err: err})
			return false, nil
		}
	case delayEnd:
		if done && err == nil && !b.asleep {
			b.counters.Late++
			b.news = append(b.news, fabric.Event{Kind: fabric.Done, Peer: int32(e.peer), Token: token})
			return false, nil
		}
	}
	return done, err
}

func (e *endpoint) Close() error {
	d := e.d
	if !d.told[e.peer] {
		d.told[e.peer] = true
		d.held -= len(d.queues[e.peer])
		d.queues[e.peer] = nil
	}
	return e.inner.Close()
}
