package hook

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

// ErrInjected is wrapped by every error that this package injects.
var ErrInjected = errors.New("injected by fabric/hook")

// poison overwrites received bytes. No more events are polled from the transport while maxPending are queued.
const (
	poison     = 0xdb
	maxPending = 1024
)

// Domain is a wrapped domain. Cut and Down may be called by any goroutine. Counters follows the rules of the methods of
// fabric.Domain.
type Domain struct {
	inner    fabric.Domain
	opts     Options
	wake     func()
	maxSend  int // of Send
	random   random
	counters Counters

	eps       []*endpoint   // by peer, nil until connected
	down      []bool        // by peer: PeerDown was reported, or its endpoint was closed here
	cut       []atomic.Bool // by peer
	queueing  atomic.Bool   // events pass through the queues
	queues    []queue       // by peer; the last one is for completions of Reads and Writes
	pending   int           // events in all queues
	nextQueue int           // queue to deliver from
	borrowed  [][]byte      // data of the last Poll, to be poisoned
	evs       [16]fabric.Event
	forced    bool // a Send was refused by injection since the last Poll
	asleep    bool // the user may be asleep: no fault may be injected that waits for its next call
	closed    bool

	shared sharedState
}

// sharedState is the state that Read, Write and Down access concurrently with other methods.
type sharedState struct {
	sync.Mutex
	random   random
	counters Counters
	injected []fabric.Event // events that the next Poll queues
	asleep   bool
}

// queue holds the events of one peer, in order.
type queue []delayedEvent

type delayedEvent struct {
	fabric.Event
	due uint64 // number of the first Poll that may return it
}

func newDomain(inner fabric.Domain, o Options, cfg *fabric.Config) *Domain {
	d := &Domain{
		inner:  inner,
		opts:   o,
		wake:   cfg.Wake,
		random: newRandom(o.Seed, cfg.Self, 0),
		eps:    make([]*endpoint, cfg.Size),
		down:   make([]bool, cfg.Size),
		cut:    make([]atomic.Bool, cfg.Size),
		queues: make([]queue, cfg.Size+1),
		shared: sharedState{random: newRandom(o.Seed, cfg.Self, 1)},
	}
	for _, r := range d.Routes() {
		d.maxSend = max(d.maxSend, r.Caps().MaxSend)
	}
	d.queueing.Store(o.needsQueues())
	return d
}

// Cut cuts the connection to a peer silently: from now on nothing passes in either direction, and no PeerDown event reports it.
// Sends succeed and are lost; Reads and Writes never complete.
func (d *Domain) Cut(peer int) {
	d.cut[peer].Store(true)
	d.queueing.Store(true)
}

// Down disconnects a peer: the next Poll returns PeerDown with err, and the transport reports it to the peer. A sleeping owner
// is woken if it sleeps without a file descriptor.
func (d *Domain) Down(peer int, err error) {
	err = fmt.Errorf("fabric/hook: peer %d: %w: %w: %w", peer, fabric.ErrPeerDown, ErrInjected, err)
	d.shared.Lock()
	defer d.shared.Unlock()
	d.queueing.Store(true)
	d.shared.injected = append(d.shared.injected, fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: err})
	if d.shared.asleep && d.wake != nil {
		d.wake()
	}
}

// Counters returns what has happened so far.
func (d *Domain) Counters() Counters {
	d.shared.Lock()
	defer d.shared.Unlock()
	c, b := d.counters, &d.shared.counters
	c.Reads, c.ReadBytes, c.Writes, c.WrittenBytes = b.Reads, b.ReadBytes, b.Writes, b.WrittenBytes
	c.Async, c.Failed = b.Async, b.Failed
	return c
}

// Addr returns that of the wrapped domain.
func (d *Domain) Addr() []byte { return d.inner.Addr() }

// Caps returns those of the wrapped domain.
func (d *Domain) Caps() fabric.Caps { return d.inner.Caps() }

// Route returns that of the wrapped domain, or this domain if the wrapped one is not a fabric.Router.
func (d *Domain) Route(peer int) fabric.Domain {
	if r, ok := d.inner.(fabric.Router); ok {
		return r.Route(peer)
	}
	return d
}

// Routes returns those of the wrapped domain, or this domain.
func (d *Domain) Routes() []fabric.Domain {
	if r, ok := d.inner.(fabric.Router); ok {
		return r.Routes()
	}
	return []fabric.Domain{d}
}

// Register registers with the wrapped domain.
func (d *Domain) Register(b []byte) (fabric.Region, error) { return d.inner.Register(b) }

// Deregister deregisters with the wrapped domain.
func (d *Domain) Deregister(r fabric.Region) error { return d.inner.Deregister(r) }

// Connect connects the wrapped domain.
func (d *Domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	inner, err := d.inner.Connect(peer, addr)
	if err != nil {
		return nil, err
	}
	if d.eps[peer] == nil {
		d.eps[peer] = &endpoint{inner: inner, d: d, peer: peer}
	}
	d.eps[peer].inner = inner // it changes with the event Rerouted
	if to, ok := inner.(fabric.Pusher); ok {
		return pusher{d.eps[peer], to}, nil
	}
	return d.eps[peer], nil
}

// Arm arms the wrapped domain, unless this one has queued events.
func (d *Domain) Arm() (fd int, ready bool, err error) {
	d.counters.Arms++
	if d.closed {
		return d.inner.Arm()
	}
	if d.pending > 0 || d.forced || !d.setAsleep(true) {
		return -1, true, nil
	}
	fd, ready, err = d.inner.Arm()
	if ready || err != nil {
		d.setAsleep(false)
	}
	return fd, ready, err
}

// setAsleep records whether the owner may sleep. It returns false, and records nothing, if the owner must not fall asleep now.
func (d *Domain) setAsleep(asleep bool) bool {
	d.shared.Lock()
	defer d.shared.Unlock()
	if asleep && len(d.shared.injected) > 0 {
		return false
	}
	d.asleep, d.shared.asleep = asleep, asleep
	return true
}

// Close closes the wrapped domain. Queued events are lost.
func (d *Domain) Close() error {
	d.closed = true
	return d.inner.Close()
}

// Poll polls the wrapped domain and returns events that are due.
func (d *Domain) Poll(evs []fabric.Event) (n int, err error) {
	d.counters.Polls++
	if d.asleep {
		d.setAsleep(false)
	}
	d.forced = false
	if d.queueing.Load() {
		n, err = d.pollQueues(evs)
	} else {
		n, err = d.inner.Poll(evs)
	}
	if n == 0 {
		d.counters.EmptyPolls++
	}
	for i := range evs[:n] {
		switch evs[i].Kind {
		case fabric.Message:
			d.counters.Messages++
			d.counters.MessageBytes += uint64(len(evs[i].Data))
		case fabric.Done:
			d.counters.Completions++
		case fabric.PeerDown:
			d.counters.PeerDowns++
			d.down[evs[i].Peer] = true
		}
	}
	return n, err
}

// pollQueues polls the wrapped domain into the queues and returns events that are due.
func (d *Domain) pollQueues(evs []fabric.Event) (int, error) {
	for _, b := range d.borrowed {
		for i := range b {
			b[i] = poison
		}
	}
	d.borrowed = d.borrowed[:0]

	k, err := d.inner.Poll(d.evs[:max(0, min(len(d.evs), maxPending-d.pending))])
	if err != nil {
		return 0, err
	}
	for i := range d.evs[:k] {
		d.receive(d.evs[i])
	}
	d.shared.Lock()
	injected := d.shared.injected
	d.shared.injected = nil
	d.shared.Unlock()
	for _, ev := range injected {
		if ev.Kind == fabric.PeerDown {
			d.disconnect(int(ev.Peer), ev.Err)
		} else {
			d.enqueue(len(d.queues)-1, ev)
		}
	}
	return d.deliver(evs), nil
}

// receive queues an event of the wrapped domain, with injected faults.
func (d *Domain) receive(ev fabric.Event) {
	if ev.Kind == fabric.Done {
		d.enqueue(len(d.queues)-1, ev)
		return
	}
	peer := int(ev.Peer)
	switch {
	case d.cut[peer].Load():
		d.counters.CutEvents++
		return
	case d.down[peer]:
		return
	}
	d.down[peer] = ev.Kind == fabric.PeerDown
	ev.Data = slices.Clone(ev.Data)
	d.enqueue(peer, ev)
	if q := d.queues[peer]; len(q) > 1 && ev.Kind == fabric.Message && d.random.happens(d.opts.Reorder) {
		d.counters.Reordered++
		q[len(q)-1].Event, q[len(q)-2].Event = q[len(q)-2].Event, ev
	}
}

// enqueue appends an event to a queue.
func (d *Domain) enqueue(q int, ev fabric.Event) {
	due := d.counters.Polls
	if d.random.happens(d.opts.Delay) {
		d.counters.Delayed++
		due += 1 + d.random.Uint64N(uint64(d.opts.MaxDelay))
	}
	d.queues[q] = append(d.queues[q], delayedEvent{ev, due})
	d.pending++
}

// disconnect closes the endpoint of a peer and queues PeerDown, as if the peer's process had ended.
func (d *Domain) disconnect(peer int, err error) {
	if d.down[peer] || d.cut[peer].Load() {
		return
	}
	d.down[peer] = true
	if e := d.eps[peer]; e != nil {
		reason := err // never changes: transfers of other goroutines read it
		e.ended.Store(&reason)
		// The connection is gone, so this error is only added to the reason.
		err = errors.Join(err, e.inner.Close())
	}
	d.enqueue(peer, fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: err})
}

// deliver returns events that are due, round-robin over the queues.
func (d *Domain) deliver(evs []fabric.Event) int {
	n := 0
	for empty := 0; n < len(evs) && empty < len(d.queues); {
		if d.pending > 0 && d.random.happens(d.opts.Interleave) {
			d.counters.Interleaved++
			d.nextQueue = d.random.IntN(len(d.queues))
		}
		q := d.queues[d.nextQueue]
		if len(q) == 0 || q[0].due > d.counters.Polls {
			d.nextQueue = (d.nextQueue + 1) % len(d.queues)
			empty++
			continue
		}
		empty = 0
		evs[n] = q[0].Event
		if d.opts.Poison {
			d.borrowed = append(d.borrowed, q[0].Data)
		}
		d.queues[d.nextQueue] = slices.Delete(q, 0, 1)
		d.pending--
		n++
	}
	return n
}
