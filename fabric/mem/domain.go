package mem

import (
	"fmt"
	"math/bits"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
)

// eager is the largest payload, in bytes, that is better copied twice, in and out of a ring, than announced and read.
const eager = 8 << 10

var _ interface {
	fabric.Domain
	fabric.SharedMemory
} = (*domain)(nil)

// domain is a peer's own side of the hub.
type domain struct {
	hub   *Hub
	self  int
	box   *inbox
	ways  []*endpoint // by peer, nil until connected
	ended []bool      // by peer: nothing more is told about it
	lends *lane       // lanes whose messages the last Poll lent, linked by next
	start int         // peer at which the next Poll begins, so that none is served last for ever
	armed bool        // box.armed may be set
	shut  bool
}

func (d *domain) Addr() []byte { return nil }

func (d *domain) Caps() fabric.Caps {
	return fabric.Caps{Transport: transports.Mem.String(), MaxSend: maxSend, Eager: eager, Read: true, Write: true}
}

func (d *domain) Register(b []byte) (fabric.Region, error) {
	if d.shut {
		return fabric.Region{}, errShut.err
	}
	key := d.hub.regions.add(d.self, b)
	return fabric.Region{Remote: fabric.RemoteKey{Key: key}, Local: key}, nil
}

func (d *domain) Deregister(r fabric.Region) error {
	if d.shut {
		return errShut.err
	}
	return d.hub.regions.remove(d.self, r.Local)
}

func (d *domain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	if d.shut {
		return nil, errShut.err
	}
	if peer < 0 || peer >= len(d.ways) {
		return nil, fmt.Errorf("fabric/mem: connect: peer %d of %d", peer, len(d.ways))
	}
	if d.ways[peer] == nil {
		if why := d.end(peer, d.box.lanes[peer].Load()); why != nil {
			return nil, fmt.Errorf("fabric/mem: connect: %w", why.err)
		}
		to := &d.hub.inboxes[peer]
		d.ways[peer] = &endpoint{domain: d, peer: peer, to: to, lane: to.lane(d.self)}
	}
	return d.ways[peer], nil
}

// end tells whether and why a peer sends nothing more.
func (d *domain) end(peer int, l *lane) *failure {
	if why := d.hub.inboxes[peer].gone.Load(); why != nil || l == nil {
		return why
	}
	return l.end.Load()
}

func (d *domain) Poll(evs []fabric.Event) (int, error) {
	if err := d.broken(); err != nil {
		return 0, err
	}
	if d.armed {
		d.armed = false
		d.box.armed.Store(false)
	}
	d.release()
	ready, n := d.box.ready, 0
	first, below := d.start/64, uint64(1)<<(d.start%64)-1
	for i := 0; i <= len(ready) && n < len(evs); i++ { // the first word comes twice: from start on, and up to it
		w := (first + i) % len(ready)
		set := ready[w].Load()
		switch i {
		case 0:
			set &^= below
		case len(ready):
			set &= below
		}
		for ; set != 0 && n < len(evs); set &= set - 1 {
			peer := w*64 + bits.TrailingZeros64(set)
			n += d.take(peer, evs[n:])
			d.start = (peer + 1) % len(d.ways)
		}
	}
	return n, nil
}

// release ends all loans. A writer that found no room is told, which also wakes it.
func (d *domain) release() {
	for l := d.lends; l != nil; {
		if l.release() {
			d.hub.inboxes[l.from].notify(d.self)
		}
		l, l.next = l.next, nil
	}
	d.lends = nil
}

// broken tells why this domain can go on no more.
func (d *domain) broken() error {
	if d.shut {
		return errShut.err
	}
	if why := d.box.gone.Load(); why != nil {
		return why.err
	}
	return nil
}

// take moves what a peer has left into evs and clears its bit if that was all.
func (d *domain) take(peer int, evs []fabric.Event) int {
	l := d.box.lanes[peer].Load()
	why := d.end(peer, l) // looked up before the lane: one that is empty after its end stays so
	n := 0
	if l != nil && d.ended[peer] {
		if l.discard() {
			d.hub.inboxes[peer].notify(d.self)
		}
	} else if l != nil {
		if n = l.fill(evs, int32(peer)); n > 0 {
			l.next, d.lends = d.lends, l
		}
		if n == len(evs) {
			return n
		}
	}
	if why != nil && !d.ended[peer] {
		d.ended[peer] = true
		if e := d.ways[peer]; e != nil {
			e.ended.Store(why)
		}
		evs[n] = fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: why.err}
		n++
	}
	word, bit := &d.box.ready[peer/64], uint64(1)<<(peer%64)
	word.And(^bit)
	if l != nil && !l.empty() || !d.ended[peer] && d.end(peer, l) != nil {
		word.Or(bit) // it came between
	}
	return n
}

// fill takes messages until the lane or evs ends.
func (l *lane) fill(evs []fabric.Event, peer int32) int {
	for n := range evs {
		data, ok := l.take()
		if !ok {
			return n
		}
		evs[n] = fabric.Event{Kind: fabric.Message, Peer: peer, Data: data}
	}
	return len(evs)
}

// Arm ends loans too: a writer may wait for the room, and this peer may sleep long.
func (d *domain) Arm() (fd int, ready bool, err error) {
	if err := d.broken(); err != nil {
		return -1, false, err
	}
	d.release()
	d.armed = true
	d.box.armed.Store(true)
	return -1, !d.box.empty(), nil
}

func (d *domain) Close() error {
	if d.shut {
		return nil
	}
	d.shut = true
	d.box.armed.Store(false)
	for _, e := range d.ways {
		if e != nil {
			e.ended.Store(&errShut)
		}
	}
	d.hub.regions.removeAll(d.self)
	d.hub.end(d.self, &failure{fmt.Errorf("fabric/mem: peer %d: %w", d.self, fabric.ErrPeerClosed)})
	return nil
}
