package hook

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

// ErrInjected is in every error that this package makes up.
var ErrInjected = errors.New("injected by fabric/hook")

// poison is what lent bytes are overwritten with, and maxHeld how many events are held back before no more are taken
// from the transport.
const (
	poison  = 0xdb
	maxHeld = 1024
)

// Domain is a wrapped domain. Cut and Down may be called by any goroutine, Counters as the methods of fabric.Domain
// may.
type Domain struct {
	inner    fabric.Domain
	o        Options
	wake     func()
	max      int // of Send
	chance   chance
	counters Counters

	ways   []*endpoint   // by peer, nil until connected
	told   []bool        // by peer: it has gone, or its endpoint was closed here
	cut    []atomic.Bool // by peer
	queued atomic.Bool   // events pass through the queues
	queues []queue       // by peer; the last one is for ends of Reads and Writes
	held   int           // events in all queues
	turn   int           // queue to take from
	lent   [][]byte      // to be poisoned
	evs    [16]fabric.Event
	forced bool // a Send was refused by chance since the last Poll
	asleep bool // armed, perhaps: nothing must be done to a user who will not call again by itself
	closed bool

	beside beside
}

// beside is what Read, Write and Down touch while other methods run.
type beside struct {
	sync.Mutex
	chance   chance
	counters Counters
	news     []fabric.Event // that the next Poll takes in
	asleep   bool
}

// queue holds the events of one peer, in order.
type queue []held

type held struct {
	fabric.Event
	due uint64 // number of the first Poll that may hand it out
}

func newDomain(inner fabric.Domain, o Options, cfg *fabric.Config) *Domain {
	d := &Domain{
		inner:  inner,
		o:      o,
		wake:   cfg.Wake,
		chance: newChance(o.Seed, cfg.Self, 0),
		ways:   make([]*endpoint, cfg.Size),
		told:   make([]bool, cfg.Size),
		cut:    make([]atomic.Bool, cfg.Size),
		queues: make([]queue, cfg.Size+1),
		beside: beside{chance: newChance(o.Seed, cfg.Self, 1)},
	}
	for _, r := range d.Routes() {
		d.max = max(d.max, r.Caps().MaxSend)
	}
	d.queued.Store(o.queues())
	return d
}

// Cut cuts the line to a peer: from now on nothing passes in either direction and nobody is told. Sends succeed and are
// lost; Reads and Writes never end.
func (d *Domain) Cut(peer int) {
	d.cut[peer].Store(true)
	d.queued.Store(true)
}

// Down loses a peer: it is told here by the next Poll, with err, and to the peer by its own transport. An owner that
// sleeps is woken if it sleeps without a descriptor.
func (d *Domain) Down(peer int, err error) {
	err = fmt.Errorf("fabric/hook: peer %d: %w: %w: %w", peer, fabric.ErrPeerDown, ErrInjected, err)
	d.beside.Lock()
	defer d.beside.Unlock()
	d.queued.Store(true)
	d.beside.news = append(d.beside.news, fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: err})
	if d.beside.asleep && d.wake != nil {
		d.wake()
	}
}

// Counters returns what has happened so far.
func (d *Domain) Counters() Counters {
	d.beside.Lock()
	defer d.beside.Unlock()
	c, b := d.counters, &d.beside.counters
	c.Reads, c.ReadBytes, c.Writes, c.WrittenBytes = b.Reads, b.ReadBytes, b.Writes, b.WrittenBytes
	c.Late, c.Failed = b.Late, b.Failed
	return c
}

// Addr is that of the wrapped domain.
func (d *Domain) Addr() []byte { return d.inner.Addr() }

// Caps is that of the wrapped domain.
func (d *Domain) Caps() fabric.Caps { return d.inner.Caps() }

// Route is that of the wrapped domain, or this domain where the wrapped one is not made of several.
func (d *Domain) Route(peer int) fabric.Domain {
	if r, ok := d.inner.(fabric.Router); ok {
		return r.Route(peer)
	}
	return d
}

// Routes are those of the wrapped domain, or this domain.
func (d *Domain) Routes() []fabric.Domain {
	if r, ok := d.inner.(fabric.Router); ok {
		return r.Routes()
	}
	return []fabric.Domain{d}
}

// Register is that of the wrapped domain.
func (d *Domain) Register(b []byte) (fabric.Region, error) { return d.inner.Register(b) }

// Deregister is that of the wrapped domain.
func (d *Domain) Deregister(r fabric.Region) error { return d.inner.Deregister(r) }

// Connect connects the wrapped domain.
func (d *Domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	inner, err := d.inner.Connect(peer, addr)
	if err != nil {
		return nil, err
	}
	if d.ways[peer] == nil {
		d.ways[peer] = &endpoint{inner: inner, d: d, peer: peer}
	}
	if to, ok := inner.(fabric.Pusher); ok {
		return pusher{d.ways[peer], to}, nil
	}
	return d.ways[peer], nil
}

// Arm arms the wrapped domain, unless something waits in this one.
func (d *Domain) Arm() (fd int, ready bool, err error) {
	d.counters.Arms++
	if d.closed {
		return d.inner.Arm()
	}
	if d.held > 0 || d.forced || !d.rest(true) {
		return -1, true, nil
	}
	fd, ready, err = d.inner.Arm()
	if ready || err != nil {
		d.rest(false)
	}
	return fd, ready, err
}

// rest notes whether the owner may sleep. It reports false, and notes nothing, if the owner must not fall asleep now.
func (d *Domain) rest(asleep bool) bool {
	d.beside.Lock()
	defer d.beside.Unlock()
	if asleep && len(d.beside.news) > 0 {
		return false
	}
	d.asleep, d.beside.asleep = asleep, asleep
	return true
}

// Close closes the wrapped domain. Events that are held back are lost.
func (d *Domain) Close() error {
	d.closed = true
	return d.inner.Close()
}

// Poll polls the wrapped domain and hands out what is due.
func (d *Domain) Poll(evs []fabric.Event) (n int, err error) {
	d.counters.Polls++
	if d.asleep {
		d.rest(false)
	}
	d.forced = false
	if d.queued.Load() {
		n, err = d.pass(evs)
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
			d.counters.Dones++
		case fabric.PeerDown:
			d.counters.PeerDowns++
			d.told[evs[i].Peer] = true
		}
	}
	return n, err
}

// pass moves events from the wrapped domain through the queues.
func (d *Domain) pass(evs []fabric.Event) (int, error) {
	for _, b := range d.lent {
		for i := range b {
			b[i] = poison
		}
	}
	d.lent = d.lent[:0]

	k, err := d.inner.Poll(d.evs[:max(0, min(len(d.evs), maxHeld-d.held))])
	if err != nil {
		return 0, err
	}
	for i := range d.evs[:k] {
		d.arrive(d.evs[i])
	}
	d.beside.Lock()
	news := d.beside.news
	d.beside.news = nil
	d.beside.Unlock()
	for _, ev := range news {
		if ev.Kind == fabric.PeerDown {
			d.lose(int(ev.Peer), ev.Err)
		} else {
			d.enqueue(len(d.queues)-1, ev)
		}
	}
	return d.deliver(evs), nil
}

// arrive takes in an event of the wrapped domain.
func (d *Domain) arrive(ev fabric.Event) {
	if ev.Kind == fabric.Done {
		d.enqueue(len(d.queues)-1, ev)
		return
	}
	peer := int(ev.Peer)
	switch {
	case d.cut[peer].Load():
		d.counters.Vanished++
		return
	case d.told[peer]:
		return
	}
	d.told[peer] = ev.Kind == fabric.PeerDown
	ev.Data = slices.Clone(ev.Data)
	d.enqueue(peer, ev)
	if q := d.queues[peer]; len(q) > 1 && ev.Kind == fabric.Message && d.chance.of(d.o.Shuffle) {
		d.counters.Shuffled++
		q[len(q)-1].Event, q[len(q)-2].Event = q[len(q)-2].Event, ev
	}
}

// enqueue puts an event at the end of a queue.
func (d *Domain) enqueue(q int, ev fabric.Event) {
	due := d.counters.Polls
	if d.chance.of(d.o.Delay) {
		d.counters.Delayed++
		due += 1 + d.chance.Uint64N(uint64(d.o.MaxDelay))
	}
	d.queues[q] = append(d.queues[q], held{ev, due})
	d.held++
}

// lose loses a peer as if its process had ended.
func (d *Domain) lose(peer int, err error) {
	if d.told[peer] || d.cut[peer].Load() {
		return
	}
	d.told[peer] = true
	if e := d.ways[peer]; e != nil {
		e.ended.Store(&err)
		// What this says about the way does not matter any more: it is gone.
		err = errors.Join(err, e.inner.Close())
	}
	d.enqueue(peer, fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: err})
}

// deliver hands out what is due, from queue to queue.
func (d *Domain) deliver(evs []fabric.Event) int {
	n := 0
	for empty := 0; n < len(evs) && empty < len(d.queues); {
		if d.held > 0 && d.chance.of(d.o.Mix) {
			d.counters.Mixed++
			d.turn = d.chance.IntN(len(d.queues))
		}
		q := d.queues[d.turn]
		if len(q) == 0 || q[0].due > d.counters.Polls {
			d.turn = (d.turn + 1) % len(d.queues)
			empty++
			continue
		}
		empty = 0
		evs[n] = q[0].Event
		if d.o.Poison {
			d.lent = append(d.lent, q[0].Data)
		}
		d.queues[d.turn] = slices.Delete(q, 0, 1)
		d.held--
		n++
	}
	return n
}
