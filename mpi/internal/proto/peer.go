package proto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// peer is what an engine knows of one other process, or of itself.
type peer struct {
	ep     fabric.Endpoint // nil until first used
	pusher fabric.Pusher   // ep, if it is one
	way    *way            // with ep
	link   perf.Link       // counts what goes to the peer and comes from it
	other  perf.Link       // the one while recording is off, if it is on, and the other way round
	// eager is the largest payload that may be sent at once, with nothing before it: -1 while not connected, while
	// other messages wait for room, or while the peer wants offers only.
	eager  int
	left   error // it has closed in order and nobody misses it: what is sent to it gets this
	choked bool  // the peer wants offers only
	choke  bool  // and this is what we told the peer
	copies bool  // reading the peer's memory is not possible

	sent, came uint32    // messages to the peer and from it, counted while they are written down
	part       part      // the message of several parts that is coming
	head, tail *outgoing // waiting for room, in order
	listed     bool      // in Engine.backlog
	offers     uint64    // words in use, a bit each
	outbound   []uint64  // words shared with the peer, nil: none or not asked yet
	inbound    []uint64
}

// outgoing is a message that waits for room. Each request has one; others come from a free list.
type outgoing struct {
	next   *outgoing
	queued bool     // waits in its peer's list
	req    *Request // to be told when the message has gone; nil if nobody is
	length int
	header [maxHeader]byte
	body   []byte
	rest   []byte // goes in further parts after the body, with nothing between them
}

// advance makes the next part of a message the one to send; false if there is none.
func (o *outgoing) advance(most int) bool {
	if len(o.rest) == 0 {
		return false
	}
	if kind(o.header[0]) == kindLong {
		o.header, o.length = header(envelope{kind: kindMore})
	}
	n := min(len(o.rest), most)
	o.body, o.rest = o.rest[:n], o.rest[n:]
	return true
}

// try sends as much of a message as there is room for.
func (e *Engine) try(p *peer, o *outgoing) error {
	if p.pusher != nil && !p.choked && kind(o.header[0]) == kindOffer {
		return p.pusher.Push(o.header[:o.length], o.req.memory.Remote, len(o.req.buf))
	}
	for {
		if err := p.ep.Send(o.header[:o.length], o.body); err != nil {
			return err
		}
		if !o.advance(p.way.rules.FragmentSize) {
			return nil
		}
	}
}

// peer returns what the engine knows of a process.
func (e *Engine) peer(n int32) *peer {
	if p := e.peers[n]; p != nil {
		return p
	}
	return e.newPeer(n)
}

func (e *Engine) newPeer(n int32) *peer {
	p := &peer{eager: -1}
	e.peers[n] = p
	return p
}

// way is what the peers that one domain reaches have in common.
type way struct {
	domain    fabric.Domain
	caps      fabric.Caps
	rules     Thresholds
	transport perf.Transport
	pins      *regcache.Cache          // of memory that peers read or write, nil if it need not be registered
	resender  fabric.RetransmitCounter // nil if the domain is none
	railer    fabric.MultiRail         // nil likewise
}

// hold makes memory known to the device, if it has to be, until release.
func (w *way) hold(b []byte) (regcache.Memory, error) {
	if w.pins != nil {
		return w.pins.Acquire(b)
	}
	r, err := w.domain.Register(b)
	return regcache.Memory{Remote: r.Remote, Local: r}, err
}

func (w *way) release(m regcache.Memory) error {
	if w.pins == nil {
		return nil
	}
	return w.pins.Release(m)
}

func newWay(d fabric.Domain, pinned int) (*way, error) {
	w := &way{domain: d, caps: d.Caps()}
	w.transport = perf.TransportNamed(w.caps.Transport)
	w.resender, _ = d.(fabric.RetransmitCounter)
	w.railer, _ = d.(fabric.MultiRail)
	var err error
	if w.rules, err = ThresholdsOf(w.caps); err != nil {
		return nil, err
	}
	if w.caps.Read && !w.caps.Direct {
		w.pins = regcache.New(d, pinned)
	}
	return w, nil
}

// wayTo finds the way to a connected peer.
func (e *Engine) wayTo(n int32) *way {
	if e.router == nil {
		return e.ways[0]
	}
	d := e.router.Route(int(n))
	return e.ways[slices.IndexFunc(e.ways, func(w *way) bool { return w.domain == d })]
}

// connect makes the endpoint of a peer if it has none yet.
func (e *Engine) connect(n int32) error {
	p := e.peer(n)
	if p.left != nil || p.ep != nil {
		return p.left
	}
	ep, err := e.domain.Connect(int(n), e.addr(n))
	if err != nil {
		return e.refused(n, fmt.Errorf("connect to process %d: %w", n, err))
	}
	p.ep, p.way = ep, e.wayTo(n)
	p.pusher, _ = ep.(fabric.Pusher)
	if t := p.way.transport; p.link.Zero() || p.link.Transport() != t {
		p.link = e.rec.Link(int(n), t)
	}
	p.reopen()
	return nil
}

// reopen sets how much may be sent at once, after something that decides it has changed.
func (p *peer) reopen() {
	p.eager = -1
	if p.ep != nil && p.head == nil && !p.choked && p.left == nil {
		p.eager = p.way.rules.MaxEager
	}
}

// post sends a message now or queues it, and keeps the order. It takes o over until the message has gone.
func (e *Engine) post(n int32, o *outgoing) error {
	p := e.peer(n)
	if err := e.connect(n); err != nil {
		return err
	}
	if p.head == nil {
		err := e.try(p, o)
		if err == nil {
			e.gone(o)
			return nil
		}
		if err != fabric.ErrAgain {
			return e.refused(n, err)
		}
		p.head = o
	} else if e.overtakes(o) {
		p.ahead(e, o)
		o.queued = true
		return nil
	} else {
		p.tail.next = o
	}
	p.tail, o.next, o.queued = o, nil, true
	p.reopen()
	if !p.listed {
		p.listed = true
		e.backlog = append(e.backlog, n)
	}
	return nil
}

// refused turns an error of the transport into the one to report: a peer that has gone breaks the engine, and it
// may be a send that learns of it first.
func (e *Engine) refused(n int32, err error) error {
	if errors.Is(err, fabric.ErrPeerDown) {
		e.fail(n, err)
		if err := cmp.Or(e.broken, e.peer(n).left); err != nil {
			return err
		}
	}
	return err
}

// gone is called when a message has been handed to the transport.
func (e *Engine) gone(o *outgoing) {
	o.body, o.rest = nil, nil
	if o.req == nil {
		o.next, e.notes = e.notes, o
		return
	}
	o.req.sent()
}

// note sends a message that no request waits for.
func (e *Engine) note(n int32, v envelope, w ...uint64) {
	o := e.notes
	if o == nil {
		o = new(outgoing)
	} else {
		e.notes = o.next
	}
	o.header, o.length = header(v, w...)
	if err := e.post(n, o); err != nil {
		e.fail(n, err)
	}
}

// lost is called instead of gone when a message cannot be sent any more.
func (e *Engine) lost(n int32, o *outgoing, err error) {
	e.fail(n, err)
	err = cmp.Or(e.broken, e.peer(n).left, err)
	o.body, o.rest = nil, nil
	if o.req == nil {
		o.next, e.notes = e.notes, o
	} else {
		e.settle(o.req)
		e.complete(o.req, err)
	}
}

// flush sends what waits for room, as far as there is room, and reports whether anything went.
func (e *Engine) flush() bool {
	moved := false
	kept := e.backlog[:0]
	for _, n := range e.backlog {
		p := e.peer(n)
		for p.head != nil {
			o := p.head
			err := e.try(p, o)
			if err == fabric.ErrAgain {
				break
			}
			p.head, o.queued = o.next, false
			moved = true
			if err != nil {
				e.lost(n, o, err)
				continue
			}
			e.gone(o)
		}
		if p.head != nil && e.broken == nil {
			kept = append(kept, n)
			continue
		}
		p.listed = false
		p.reopen()
	}
	e.backlog = kept
	if moved {
		e.stir()
	}
	return moved
}
