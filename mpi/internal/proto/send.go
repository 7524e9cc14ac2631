package proto

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// Send sends buf and returns when it may be used again; in mode Synchronous, when the message has been matched.
func (e *Engine) Send(to Route, buf []byte, mode Mode) error {
	if to.Peer == ProcNull {
		e.EndOp(to.Op, 0, 0)
		return nil
	}
	e.lock()
	began := uint64(0)
	if e.rec.Due(to.Op, len(buf)) {
		began = e.rec.Begin(to.Op, len(buf))
	}
	p := e.peer(to.Peer)
	if len(buf) <= p.eager && mode == Standard && (e.plain || e.isPlain(to.Context)) {
		envelope{kind: kindEager, context: to.Context, Match: to.Match}.put(&e.scratch)
		if p.ep.Send(e.scratch[:envelopeBytes], buf) == nil {
			p.link.Out(len(buf))
			e.rec.End(to.Op, len(buf), began)
			e.unlock()
			return nil
		}
		// No room, or a broken endpoint: the long way finds out again.
	}
	r := e.take()
	r.send, r.mode, r.route, r.buf = true, mode, to, buf
	err := e.start(r)
	if err == nil {
		err = e.wait(r, to.Op)
	}
	if began != 0 {
		e.rec.With(to.Peer, to.Tag)
	}
	e.rec.End(to.Op, len(buf), began)
	e.unlock()
	return err
}

// Isend begins a send. buf belongs to the engine until the request has completed.
func (e *Engine) Isend(to Route, buf []byte, mode Mode) (Handle, error) {
	e.lock()
	began := uint64(0)
	if e.rec.Due(to.Op, len(buf)) {
		began = e.rec.Begin(to.Op, len(buf))
	}
	r := e.take()
	r.send, r.mode, r.route, r.buf = true, mode, to, buf
	if to.Peer == ProcNull {
		r.status = empty
		e.complete(r, nil)
		h := r.handle()
		e.rec.End(to.Op, 0, began)
		e.unlock()
		return h, nil
	}
	p := e.peer(to.Peer)
	if len(buf) <= p.eager && mode == Standard && (e.plain || e.isPlain(to.Context)) {
		envelope{kind: kindEager, context: to.Context, Match: to.Match}.put(&e.scratch)
		if p.ep.Send(e.scratch[:envelopeBytes], buf) == nil {
			r.buf, r.status, r.err = nil, empty, nil
			r.state = done
			h := r.handle()
			p.link.Out(len(buf))
			e.rec.End(to.Op, len(buf), began)
			e.unlock()
			return h, nil
		}
	}
	h := r.handle()
	err := e.start(r)
	if began != 0 {
		e.rec.With(to.Peer, to.Tag)
	}
	e.rec.End(to.Op, len(buf), began)
	e.unlock()
	return h, err
}

// start begins the send that r describes. On an error r is free again.
func (e *Engine) start(r *Request) error {
	r.status, r.err = empty, nil
	err := e.broken
	switch {
	case err != nil:
	case r.route.Peer == ProcNull:
		e.complete(r, nil)
	case r.mode == Buffered:
		err = e.buffered(r)
	default:
		err = e.announce(r)
	}
	if err != nil {
		e.settle(r)
		if r.ends&kept != 0 {
			r.state = inactive
		} else {
			e.release(r)
		}
	}
	return err
}

// announce sends the first message of a send: all of it, or an offer.
func (e *Engine) announce(r *Request) error {
	if err := e.connect(r.route.Peer); err != nil {
		return err
	}
	p := e.peer(r.route.Peer)
	r.epoch = 0
	h := e.hints[r.route.Context]
	if h != nil && h.Epoch != 0 {
		r.epoch = h.Epoch
		if w, ok := e.lane(r.route.Context, r.route.Peer).meet(r.route.Tag, len(r.buf)); ok {
			return e.put(r, w)
		}
	}
	v := envelope{context: r.route.Context, Match: r.route.Match, epoch: r.epoch}
	o := &r.out
	o.body, o.rest = nil, nil
	stream := 0
	if r.mode != Synchronous {
		stream = p.ep.Stream()
	}
	form := p.way.rules.Choose(len(r.buf), stream, e.pairer != nil)
	if h != nil {
		form = h.shape(form, len(r.buf), &p.way.rules)
	}
	switch {
	case p.choked || form > Fragmented:
		if err := e.propose(r); err != nil {
			return err
		}
	case r.mode == Synchronous:
		v.kind = kindSync
		o.header, o.length = header(v, r.id())
		o.body = r.buf
	case form == Fragmented:
		v.kind = kindLong
		o.header, o.length = header(v, uint64(len(r.buf)))
		o.body, o.rest = r.buf[:p.way.rules.FragmentSize], r.buf[p.way.rules.FragmentSize:]
	default:
		v.kind = kindEager
		o.header, o.length = header(v)
		o.body = r.buf
	}
	p.link.OutBy(r.protocol(p), len(r.buf))
	e.left(r)
	return e.post(r.route.Peer, o)
}

// protocol is how a send begins its way, as it is recorded. Whoever has been announced something decides how it is fetched, but
// it does what is possible, as is known here.
func (r *Request) protocol(p *peer) perf.Protocol {
	switch k := kind(r.out.header[0]); {
	case k == kindLong:
		return perf.Parts
	case k != kindOffer && k != kindPut:
		return perf.Eager
	case r.word >= 0:
		return perf.Shared
	case k == kindPut && r.move.form == putting, k == kindOffer && p.way.caps.Read:
		return perf.Read
	}
	return perf.Copied
}

// propose makes an offer the first message of a send.
func (e *Engine) propose(r *Request) error {
	if err := e.expose(r); err != nil {
		return err
	}
	v := envelope{kindOffer, r.route.Context, r.route.Match, r.epoch}
	o := &r.out
	o.body, o.rest = nil, nil
	o.header, o.length = header(v, uint64(len(r.buf)), r.memory.Remote.Addr, r.memory.Remote.Key, r.id(), e.reserve(r))
	return nil
}

// choked handles CHOKE and UNCHOKE. What still waits for room on its way to a peer that wants offers is offered,
// too: it may be far more than the peer has room for.
func (e *Engine) choked(n int32, on bool) {
	p := e.peer(n)
	p.choked = on
	p.reopen()
	if !on {
		return
	}
	for o := p.head; o != nil; o = o.next {
		if k := kind(o.header[0]); len(o.body) == 0 || k > kindLong {
			continue
		}
		if err := e.propose(o.req); err != nil {
			e.fail(n, err)
			return
		}
	}
}

// expose makes the buffer readable for the peer. Where it cannot be registered the peer is told that it cannot read it, and asks
// for copies.
func (e *Engine) expose(r *Request) (err error) {
	w := e.peer(r.route.Peer).way
	if len(r.buf) == 0 || !w.caps.Read {
		return nil
	}
	r.memory, err = w.hold(r.buf)
	if e.copiable(err) {
		r.memory, err = unreadable, nil
	}
	return err
}

// unreadable stands for memory that the peer cannot read.
var unreadable = regcache.Memory{Remote: fabric.RemoteKey{Addr: noWord, Key: noWord}}

// copiable tells whether an error of registration means that the bytes have to be copied, and tells the user so once.
func (e *Engine) copiable(err error) bool {
	if !errors.Is(err, regcache.ErrNoRoom) && !errors.Is(err, regcache.ErrNotRegistrable) {
		return false
	}
	if !e.complained && e.report != nil {
		e.report(fmt.Sprintf("large messages are copied instead of being moved by the device, which is slower: %v", err))
	}
	e.complained = true
	return true
}

// reserve finds a word for sharing the work of a large transfer; noWord if it does not pay or none is free.
func (e *Engine) reserve(r *Request) uint64 {
	if e.pairer == nil || len(r.buf) < shareFrom {
		return noWord
	}
	p := e.peer(r.route.Peer)
	if p.outbound == nil {
		p.outbound = e.pairer.Words(int(r.route.Peer), false)
	}
	i := bits.TrailingZeros64(^p.offers)
	if i*wordStride >= len(p.outbound) {
		return noWord
	}
	p.offers |= 1 << i
	r.word = i
	atomic.StoreUint64(&p.outbound[i*wordStride], 0)
	return uint64(i)
}

// settle gives back what a send held besides the request itself.
func (e *Engine) settle(r *Request) {
	if r.word >= 0 {
		e.peer(r.route.Peer).offers &^= 1 << r.word
		r.word = -1
	}
	if r.move.queued {
		e.moves.remove(&r.move) // invited to help, and no longer needed
	}
	r.move.form = nothing
	if r.memory != (regcache.Memory{}) {
		// The bytes have been moved, whatever this says; a domain that cannot is broken and will say so when polled.
		_ = e.peer(r.route.Peer).way.release(r.memory)
		r.memory = regcache.Memory{}
	}
}

// sent is called when the transport has taken the request's message.
func (r *Request) sent() {
	switch kind(r.out.header[0]) {
	case kindEager, kindMore:
		r.e.complete(r, nil)
	case kindData:
		r.e.nextPiece(r)
	case kindPut:
		r.e.putSent(r)
	}
}

// awaits tells whether a peer may have something to say about a request: that it is a send to this peer which has been
// announced, and not asked for in copies yet.
func (r *Request) awaits(peer int32) bool {
	k := kind(r.out.header[0])
	return r.send && r.route.Peer == peer && !r.out.queued && (k == kindOffer || k == kindSync || k == kindPut && r.word >= 0)
}

// finished handles FIN: the receiver has matched the message and has all of it.
func (e *Engine) finished(peer int32, w [5]uint64) bool {
	r := e.byID(w[0])
	if r == nil || !r.awaits(peer) {
		return false
	}
	if r.move.running {
		r.move.after = kindFin
		return true
	}
	e.sentAll(r)
	return true
}

// sentAll completes a send.
func (e *Engine) sentAll(r *Request) {
	e.settle(r)
	e.complete(r, nil)
}
