package proto

import (
	"cmp"
	"errors"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/ticks"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// trySend sends as much of a message as the transport has room for.
func (p *peer) trySend(o *outgoing) error {
	if o.packed.data != nil {
		return p.trySendPacked(o)
	}
	if p.pusher != nil && !p.paused && o.kind() == wire.RTS && o.req.data == nil {
		return p.pusher.Push(o.header[:o.length], o.req.exposed.Remote, len(o.req.buf))
	}
	if o.marks != 0 {
		return p.trySendTimed(o)
	}
	for {
		if err := p.ep.Send(o.header[:o.length], o.body); err != nil {
			return err
		}
		if !o.nextFragment(p.path.thresholds.FragmentSize) {
			return nil
		}
	}
}

// trySendTimed is trySend for a message in fragments that is measured.
func (p *peer) trySendTimed(o *outgoing) error {
	e := o.req.e
	for {
		began := e.now()
		if err := p.ep.Send(o.header[:o.length], o.body); err != nil {
			return err
		}
		spent := e.now() - began
		if o.spent == 0 {
			o.first = spent
		}
		o.spent += spent
		if !o.nextFragment(p.path.thresholds.FragmentSize) {
			n := o.req.size()
			p.sentPart(n, o.marks, protocols.Fragmented, o.spent, o.first, n)
			o.marks = 0
			return nil
		}
	}
}

// trySendPacked is trySend for a message whose payload is in parts.
func (p *peer) trySendPacked(o *outgoing) error {
	for {
		q := &o.packed
		if err := p.sendPacked(o.req.e, o.header[:o.length], &q.data.Buffer, q.from, q.n); err != nil {
			return err
		}
		if !o.nextFragment(p.path.packedPiece) {
			return nil
		}
	}
}

// post sends a message, or queues it if there is no room or others wait. o must not be changed until it has been sent.
func (e *Engine) post(n int32, o *outgoing) error {
	p := e.peer(n)
	e.rec.Posted(o.kind())
	if err := e.connect(n); err != nil {
		e.rec.Dropped(o.kind())
		return err
	}
	if p.head == nil {
		delayed := p.combining && e.combining.delayed(ticks.Now()) // before the system call
		err := p.trySend(o)
		if p.combining {
			e.combining.send(delayed)
		}
		if err == nil {
			e.sendDone(o)
			return nil
		}
		if err != fabric.ErrAgain {
			e.rec.Dropped(o.kind())
			if errors.Is(err, fabric.ErrPeerClosed) {
				return e.refused(n, err)
			}
			return e.transportError(n, err)
		}
		p.head = o
	} else if e.mayOvertake(o) {
		p.queueFirst(e, o)
		o.queued = true
		return nil
	} else {
		p.tail.next = o
	}
	p.tail, o.next, o.queued = o, nil, true
	p.updateMaxEager()
	if !p.listed {
		p.listed = true
		e.blocked = append(e.blocked, n)
	}
	return nil
}

// refused records that a message cannot be sent because the peer has closed, and returns the error. It does not end what waits
// for the peer: its event does, which follows all that it has sent, and may come much later. But the program may get this error
// from the send, so PeerError agrees with it from now on.
func (e *Engine) refused(n int32, err error) error {
	e.rec.Configured.LostPeer()
	e.peer(n).refuses = true
	return &failureError{n, err}
}

// queueFirst queues an RTS before all messages except other RTS that were queued in this way.
func (p *peer) queueFirst(e *Engine, o *outgoing) {
	at := &p.head
	for *at != nil && e.mayOvertake(*at) {
		at = &(*at).next
	}
	if o.next = *at; o.next == nil {
		p.tail = o
	}
	*at = o
}

// sendDone must be called when the transport has taken the whole message.
func (e *Engine) sendDone(o *outgoing) {
	o.body, o.remaining = nil, nil
	o.packed.clear()
	if o.req == nil {
		e.control.put(o)
		return
	}
	o.req.messageSent()
}

// sendControl sends a message that belongs to no send request.
func (e *Engine) sendControl(n int32, v wire.Envelope, w ...uint64) {
	o := e.control.take()
	o.header, o.length = wire.Header(v, w...)
	if err := e.post(n, o); err != nil && !errors.Is(err, fabric.ErrPeerClosed) {
		e.fail(n, err)
	}
}

// sendFailed must be called instead of sendDone when a message cannot be sent any more.
func (e *Engine) sendFailed(n int32, o *outgoing, err error) {
	if errors.Is(err, fabric.ErrPeerClosed) {
		err = e.refused(n, err)
	} else {
		e.fail(n, err)
	}
	e.dropMessage(o, cmp.Or(e.failure.err, e.peer(n).finalized, err))
}

// dropMessage drops a message that cannot be sent any more, and that has been counted as dropped. A request that it belongs to
// completes with err.
func (e *Engine) dropMessage(o *outgoing, err error) {
	o.body, o.remaining = nil, nil
	o.packed.clear()
	if o.req == nil {
		e.control.put(o)
	} else {
		o.req.releaseSend()
		e.complete(o.req, err)
	}
}

// flushBlocked sends queued messages as far as there is room. It reports whether it sent any.
func (e *Engine) flushBlocked() bool {
	sent := false
	still := e.blocked[:0]
	for _, n := range e.blocked {
		p := e.peer(n)
		for p.head != nil {
			o := p.head
			err := p.trySend(o)
			if err == fabric.ErrAgain {
				break
			}
			p.head, o.queued = o.next, false
			sent = true
			if err != nil {
				e.rec.Dropped(o.kind())
				e.sendFailed(n, o, err)
				continue
			}
			e.sendDone(o)
		}
		if p.head != nil && e.failure.err == nil {
			still = append(still, n)
			continue
		}
		p.listed = false
		p.updateMaxEager()
	}
	e.blocked = still
	if sent {
		e.rouseReached()
	}
	return sent
}
