package mem

import (
	"fmt"
	"math/bits"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
)

// eager is the largest payload, in bytes, for which two copies, into a ring and out of it, are faster than a rendezvous.
const eager = 8 << 10

var _ interface {
	fabric.Domain
	fabric.SharedMemory
} = (*domain)(nil)

// domain is one peer's membership in a hub.
type domain struct {
	hub      *Hub
	self     int
	box      *inbox
	eps      map[int]*endpoint // by peer, those that are connected
	reported []uint64          // one bit per peer: its end was reported, so no more events of it follow
	borrowed *lane             // lanes with messages that the last Poll returned, linked by next
	start    int               // peer at which the next Poll begins, for fairness
	armed    bool              // box.armed may be set
	closed   bool
}

func (d *domain) Addr() []byte { return nil }

func (d *domain) Caps() fabric.Caps {
	return fabric.Caps{Transport: transports.Mem.String(), MaxSend: maxSend, Eager: eager, Read: true, Write: true}
}

func (d *domain) Register(b []byte) (fabric.Region, error) {
	if d.closed {
		return fabric.Region{}, errDomainClosed.err
	}
	key := d.hub.regions.add(d.self, b)
	return fabric.Region{Remote: fabric.RemoteKey{Key: key}, Local: key}, nil
}

func (d *domain) Deregister(r fabric.Region) error {
	if d.closed {
		return errDomainClosed.err
	}
	return d.hub.regions.remove(d.self, r.Local)
}

func (d *domain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	if d.closed {
		return nil, errDomainClosed.err
	}
	if n := len(d.hub.inboxes); peer < 0 || peer >= n {
		return nil, fmt.Errorf("fabric/mem: connect: peer %d of %d", peer, n)
	}
	if e := d.eps[peer]; e != nil {
		return e, nil
	}
	if d.isReported(peer) { // before that, Poll first returns what the peer has sent, and then its end
		why := d.failureOf(peer, d.box.lane(peer))
		return nil, fmt.Errorf("fabric/mem: connect: %w", why.err)
	}
	to := &d.hub.inboxes[peer]
	e := &endpoint{domain: d, peer: peer, to: to, lane: to.makeLane(d.self)}
	d.eps[peer] = e
	return e, nil
}

// isReported reports whether the end of a peer was reported.
func (d *domain) isReported(peer int) bool {
	return d.reported[peer/groupSize]>>(peer%groupSize)&1 != 0
}

// report records that the end of a peer was reported.
func (d *domain) report(peer int) { d.reported[peer/groupSize] |= 1 << (peer % groupSize) }

// failureOf returns why a peer sends nothing more, or nil.
func (d *domain) failureOf(peer int, l *lane) *failure {
	if why := d.hub.inboxes[peer].down.Load(); why != nil || l == nil {
		return why
	}
	return l.end.Load()
}

func (d *domain) Poll(evs []fabric.Event) (int, error) {
	if err := d.checkUsable(); err != nil {
		return 0, err
	}
	if d.armed {
		d.armed = false
		d.box.armed.Store(false)
	}
	d.releaseBorrowed()
	groups, n := d.box.groups, 0
	first, below := d.start/groupSize, uint64(1)<<(d.start%groupSize)-1
	for i := 0; i <= len(groups) && n < len(evs); i++ { // the first one is visited twice: from start on, and up to it
		g := (first + i) % len(groups)
		set := groups[g].ready.Load()
		switch i {
		case 0:
			set &^= below
		case len(groups):
			set &= below
		}
		for ; set != 0 && n < len(evs); set &= set - 1 {
			peer := g*groupSize + bits.TrailingZeros64(set)
			n += d.receive(peer, evs[n:])
			d.start = (peer + 1) % len(d.hub.inboxes)
		}
	}
	return n, nil
}

// releaseBorrowed returns the room of all messages of the last Poll to their writers. It notifies writers that found no
// room, which also wakes them.
func (d *domain) releaseBorrowed() {
	for l := d.borrowed; l != nil; {
		if l.release() {
			d.hub.inboxes[l.from].notify(d.self)
		}
		l, l.next = l.next, nil
	}
	d.borrowed = nil
}

// checkUsable returns an error if this domain was closed or has failed.
func (d *domain) checkUsable() error {
	if d.closed {
		return errDomainClosed.err
	}
	if why := d.box.down.Load(); why != nil {
		return why.err
	}
	return nil
}

// receive moves messages and the end of a peer into evs. It clears the peer's bit if nothing is left.
func (d *domain) receive(peer int, evs []fabric.Event) int {
	// Loaded before the lane, which a peer may make just before it closes, and before the lane is read: a lane that is empty
	// after its end stays empty.
	why := d.hub.inboxes[peer].down.Load()
	l := d.box.lane(peer)
	if why == nil && l != nil {
		why = l.end.Load()
	}
	n := 0
	if l != nil && d.isReported(peer) {
		if l.discard() {
			d.hub.inboxes[peer].notify(d.self)
		}
	} else if l != nil {
		if n = l.fill(evs, int32(peer)); n > 0 {
			l.next, d.borrowed = d.borrowed, l
		}
		if n == len(evs) {
			return n
		}
	}
	if why != nil && !d.isReported(peer) {
		d.report(peer)
		if e := d.eps[peer]; e != nil {
			e.ended.Store(why)
		}
		evs[n] = fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: why.err}
		n++
	}
	word, bit := &d.box.groups[peer/groupSize].ready, uint64(1)<<(peer%groupSize)
	word.And(^bit)
	if l != nil && !l.empty() || !d.isReported(peer) && d.failureOf(peer, l) != nil {
		word.Or(bit) // something arrived in between
	}
	return n
}

// fill gets messages until the lane is empty or evs is full.
func (l *lane) fill(evs []fabric.Event, peer int32) int {
	for n := range evs {
		data, ok := l.get()
		if !ok {
			return n
		}
		evs[n] = fabric.Event{Kind: fabric.Message, Peer: peer, Data: data}
	}
	return len(evs)
}

// Arm also releases the messages of the last Poll: a writer may wait for the room, and this peer may sleep long.
func (d *domain) Arm() (fd int, ready bool, err error) {
	if err := d.checkUsable(); err != nil {
		return -1, false, err
	}
	d.releaseBorrowed()
	d.armed = true
	d.box.armed.Store(true)
	return -1, !d.box.empty(), nil
}

func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	d.box.armed.Store(false)
	for _, e := range d.eps {
		e.ended.Store(&errDomainClosed)
	}
	d.hub.takeDown(d.self, &failure{fmt.Errorf("fabric/mem: peer %d: %w", d.self, fabric.ErrPeerClosed)})
	d.hub.regions.removeAll(d.self) // after takeDown: a peer that finds no region then finds why
	return nil
}
