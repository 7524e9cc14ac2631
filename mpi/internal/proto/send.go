package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Send sends buf and returns when buf may be used again; in mode Synchronous, when the message has
// been matched.
func (e *Engine) Send(to Route, buf []byte, mode Mode) error {
	if to.Peer == ProcNull {
		e.rec.EndOp(to.Op, 0, 0)
		return nil
	}
	e.lock()
	began := uint64(0)
	if e.rec.Active.Due(to.Op, len(buf)) {
		began = e.rec.Active.Begin(to.Op, len(buf))
	}
	p := e.links.peer(to.Peer)
	if len(buf) <= p.maxEager && mode == Standard && (e.hints.plainSends || e.plainSendsIn(to.Context)) {
		wire.Envelope{Kind: wire.Eager, Context: to.Context, Match: to.Match}.Put(&e.scratch)
		if e.sendEager(p, buf) == nil {
			p.link.Out(len(buf))
			e.rec.Active.End(to.Op, len(buf), began)
			e.unlock()
			return nil
		}
		// There is no room, or the endpoint has failed: the general case below finds out which.
	}
	r := e.requests.take()
	r.send, r.mode, r.route, r.buf = true, mode, to, buf
	err := e.sends.start(r)
	if err == nil {
		err = e.requests.waitRequest(r, to.Op)
	}
	if began != 0 {
		e.rec.SetPeer(to.Context, to.Peer, to.Tag)
	}
	e.rec.Active.End(to.Op, len(buf), began)
	e.unlock()
	return err
}

// Isend starts a send. buf must not be changed until the request has completed.
func (e *Engine) Isend(to Route, buf []byte, mode Mode) (Handle, error) {
	e.lock()
	began := uint64(0)
	if e.rec.Active.Due(to.Op, len(buf)) {
		began = e.rec.Active.Begin(to.Op, len(buf))
	}
	r := e.requests.take()
	r.send, r.mode, r.route = true, mode, to
	if to.Peer == ProcNull {
		r.status = emptyStatus
		e.requests.complete(r, nil)
		h := r.handle()
		e.rec.Active.End(to.Op, 0, began)
		e.unlock()
		return h, nil
	}
	p := e.links.peer(to.Peer)
	if len(buf) <= p.maxEager && mode == Standard && (e.hints.plainSends || e.plainSendsIn(to.Context)) {
		wire.Envelope{Kind: wire.Eager, Context: to.Context, Match: to.Match}.Put(&e.scratch)
		if e.sendEager(p, buf) == nil {
			// No goroutine waits for the request, since no handle of it is in use yet. But it may be a
			// member of a waitSet, see anyWait.take.
			if r.status, r.state = emptyStatus, done; r.flags&inSet != 0 {
				r.member.set.list(r)
			}
			h := r.handle()
			p.link.Out(len(buf))
			e.rec.Active.End(to.Op, len(buf), began)
			e.unlock()
			return h, nil
		}
	}
	r.buf = buf
	h := r.handle()
	err := e.sends.start(r)
	if began != 0 {
		e.rec.SetPeer(to.Context, to.Peer, to.Tag)
	}
	e.rec.Active.End(to.Op, len(buf), began)
	e.unlock()
	return h, err
}

// sendEager sends the envelope in scratch and a payload.
func (e *Engine) sendEager(p *peer, payload []byte) error {
	if c, w := &e.links.combining, &e.waiters; c.combines(p) {
		return c.sendTo(p, waiting{w.woken != 0, w.sleeping, w.yieldTimer.Polls()}, e.scratch[:wire.EnvelopeBytes], payload)
	}
	return p.ep.Send(e.scratch[:wire.EnvelopeBytes], payload)
}

// start starts the send that r describes. On an error r is free again.
func (x *sends) start(r *Request) error {
	r.status, r.err = emptyStatus, nil
	err := x.links.failure.err
	switch {
	case err != nil:
	case r.route.Peer == ProcNull:
		x.requests.complete(r, nil)
	case r.mode == Buffered:
		err = x.startBuffered(r)
	default:
		err = x.sendFirst(r)
	}
	if err != nil {
		x.releaseSend(r)
		if r.flags&persistent != 0 {
			r.state = inactive
		} else {
			x.requests.release(r)
		}
	}
	return err
}

// sendFirst chooses the protocol of a send and posts its first message.
func (x *sends) sendFirst(r *Request) error {
	if err := x.links.connect(r.route.Peer); err != nil {
		return err
	}
	if r.flags&noted != 0 {
		x.sendNote(r)
	}
	p := x.links.peer(r.route.Peer)
	r.epoch = 0
	h := x.hints.byContext[r.route.Context]
	if h != nil && h.Epoch != 0 {
		r.epoch = h.Epoch
		if target, ok := x.rtr.Flow(r.route.Context, r.route.Peer).Take(r.route.Tag, r.size()); ok {
			return x.sendPut(r, target)
		}
	}
	if err := x.prepareFirst(r, p, h); err != nil {
		return err
	}
	p.link.OutBy(r.recordedProtocol(p), r.size())
	p.traceSend(x.rec, r)
	return x.post(r)
}

// prepareFirst chooses the protocol for a send to a connected peer, and prepares the first message.
func (x *sends) prepareFirst(r *Request, p *peer, h *Hints) error {
	protocol, marks := x.chooseProtocol(r, p, h)
	size := r.size()
	if p.paused && protocol <= protocols.Fragmented {
		protocol = p.path.thresholds.Rendezvous(size, x.links.copier != nil)
	}
	if protocol > protocols.Fragmented {
		return x.prepareRTS(r, protocol, marks)
	}
	piece := p.path.thresholds.FragmentSize
	if r.data != nil {
		if piece = p.path.packedPiece; size > piece && piece != 0 {
			protocol = protocols.Fragmented
		}
	}
	r.prepareEager(protocol, piece, marks)
	return nil
}

// chooseProtocol returns the protocol of a send, and its marks if it is to be measured. h are the
// hints of its context; nil: there are none. If the peer has paused this process the caller
// replaces an eager protocol.
func (x *sends) chooseProtocol(r *Request, p *peer, h *Hints) (_ protocols.Protocol, marks uint64) {
	limits, n := &p.path.thresholds, r.size()
	fragments, paired := r.mode != Synchronous && !p.paused, x.links.copier != nil
	forced := x.hints.forced
	if h != nil && h.Forced != nil {
		forced = h.Forced
	}
	if forced != nil {
		return limits.Nearest(forced.Next(n <= limits.MaxEager), n, fragments, paired), 0
	}
	if h != nil && h.EagerLimit >= 0 {
		return h.choose(n, limits, paired), 0
	}
	protocol := limits.Choose(n, paired)
	if protocol == protocols.Fragmented && !fragments {
		protocol = limits.Rendezvous(n, paired)
	}
	if n > limits.MaxEager && limits.MaxStream != 0 && r.data == nil {
		return p.measuredProtocol(n, protocol, fragments)
	}
	return protocol, 0
}

// recordedProtocol returns the protocol under which a send is recorded. The receiver of an RTS
// decides how the payload is transferred; it does what is possible, which is known here.
func (r *Request) recordedProtocol(p *peer) perf.Protocol {
	switch k := r.out.kind(); {
	case k == wire.FirstFrag:
		return perf.Parts
	case k != wire.RTS && k != wire.Put:
		return perf.Eager
	case r.word >= 0:
		return perf.Shared
	case k == wire.Put && r.transfer.state == transferPutting, k == wire.RTS && p.path.caps.Read && r.exposed != unreadable:
		return perf.Read
	}
	return perf.Copied
}

// releaseSend releases what a send holds besides the request itself.
func (x *sends) releaseSend(r *Request) {
	if r.word >= 0 {
		x.links.peer(r.route.Peer).usedWords &^= 1 << r.word
		r.word = -1
	}
	if r.transfer.queued {
		x.remove(&r.transfer) // an assist that is no longer needed
	}
	r.transfer.state = transferNone
	releaseMemory(&r.exposed)
}

// post posts the request's message.
func (x *sends) post(r *Request) error {
	sent, err := x.links.post(r.route.Peer, &r.out)
	if sent {
		x.messageSent(r)
	}
	return err
}

// messageFinished is notified.finished of links.
func (x *sends) messageFinished(r *Request, err error) {
	if err != nil {
		x.releaseSend(r)
		x.requests.complete(r, err)
		return
	}
	x.messageSent(r)
}

// messageSent must be called when the transport has taken the request's message.
func (x *sends) messageSent(r *Request) {
	switch r.out.kind() {
	case wire.Eager, wire.Frag:
		x.requests.complete(r, nil)
	case wire.Data:
		x.sendNextData(r)
	case wire.Put:
		x.startPut(r)
	}
}

// awaitsPeer reports whether a message of a peer about this request is possible. That is so if the
// request is a send to this peer whose RTS, synchronous message or shared Put has been sent, and
// whose data have not been requested yet.
func (r *Request) awaitsPeer(peer int32) bool {
	k := r.out.kind()
	return r.send && r.route.Peer == peer && !r.out.queued &&
		(k == wire.RTS || k == wire.EagerSync || k == wire.Put && r.word >= 0)
}

// handleFIN handles FIN: the receiver has matched the message and has all of it.
func (x *sends) handleFIN(peer int32, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) {
		return false
	}
	if r.transfer.running {
		r.transfer.deferred = wire.FIN
		return true
	}
	x.completeSend(r)
	return true
}

// completeSend completes a send successfully.
func (x *sends) completeSend(r *Request) {
	x.releaseSend(r)
	x.requests.complete(r, nil)
}

// sendPlain sends a message of a schedule if it is short and need not wait, and reports whether it
// has.
func (e *Engine) sendPlain(to Route, b []byte) bool {
	p := e.links.peer(to.Peer)
	if len(b) > p.maxEager || !e.hints.plainSends && !e.plainSendsIn(to.Context) {
		return false
	}
	wire.Envelope{Kind: wire.Eager, Context: to.Context, Match: to.Match}.Put(&e.scratch)
	if e.sendEager(p, b) != nil {
		return false
	}
	p.link.Out(len(b))
	return true
}
