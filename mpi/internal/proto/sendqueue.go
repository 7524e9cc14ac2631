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
func (l *links) trySend(p *peer, o *outgoing) error {
	if o.packed.data != nil {
		return l.trySendPacked(p, o)
	}
	if p.pusher != nil && !p.paused && o.kind() == wire.RTS && o.req.data == nil {
		return p.pusher.Push(o.header[:o.length], o.req.exposed.Remote, len(o.req.buf))
	}
	if o.marks != 0 {
		return l.trySendTimed(p, o)
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
func (l *links) trySendTimed(p *peer, o *outgoing) error {
	for {
		began := l.now()
		if err := p.ep.Send(o.header[:o.length], o.body); err != nil {
			return err
		}
		spent := l.now() - began
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
func (l *links) trySendPacked(p *peer, o *outgoing) error {
	for {
		q := &o.packed
		if err := l.sendPacked(p, o.header[:o.length], &q.data.Buffer, q.from, q.n); err != nil {
			return err
		}
		if !o.nextFragment(p.path.packedPiece) {
			return nil
		}
	}
}

// post sends a message, or queues it if there is no room or others wait. If it queues o it returns
// false without an error, and o must not be changed until finishMessage is called for it.
func (l *links) post(n int32, o *outgoing) (sent bool, _ error) {
	p := l.peer(n)
	l.rec.Posted(o.kind())
	if err := l.connect(n); err != nil {
		l.rec.Dropped(o.kind())
		return false, err
	}
	if p.head == nil {
		delayed := p.combining && l.combining.delayed(ticks.Now()) // before the system call
		err := l.trySend(p, o)
		if p.combining {
			l.combining.send(delayed)
		}
		if err == nil {
			l.clear(o)
			return true, nil
		}
		if err != fabric.ErrAgain {
			l.rec.Dropped(o.kind())
			if errors.Is(err, fabric.ErrPeerClosed) {
				return false, l.refused(n, err)
			}
			return false, l.transportError(n, err)
		}
		p.head = o
	} else if l.mayOvertake(o) {
		l.queueFirst(p, o)
		o.queued = true
		return false, nil
	} else {
		p.tail.next = o
	}
	p.tail, o.next, o.queued = o, nil, true
	p.updateMaxEager()
	if !p.listed {
		p.listed = true
		l.blocked = append(l.blocked, n)
	}
	return false, nil
}

// refused records that a message cannot be sent because the peer has closed, and returns the error.
// It does not end what waits for the peer: its event does, which follows all that it has sent, and
// may come much later. But the program may get this error from the send, so PeerError agrees with
// it from now on.
func (l *links) refused(n int32, err error) error {
	l.rec.Configured.LostPeer()
	l.peer(n).refuses = true
	return &failureError{n, err}
}

// queueFirst queues an RTS before all messages except other RTS that were queued in this way.
func (l *links) queueFirst(p *peer, o *outgoing) {
	at := &p.head
	for *at != nil && l.mayOvertake(*at) {
		at = &(*at).next
	}
	if o.next = *at; o.next == nil {
		p.tail = o
	}
	*at = o
}

// mayOvertake reports whether a message may be sent before others that wait for room: it is an RTS
// of a context that allows overtaking. Traced messages are numbered and keep their order.
func (l *links) mayOvertake(o *outgoing) bool {
	if o.req == nil || o.kind() != wire.RTS || l.rec.General {
		return false
	}
	h := l.hints.byContext[o.req.route.Context]
	return h != nil && h.AllowOvertaking && h.Epoch == 0
}

// clear must be called when the transport has taken a whole message, or the message is dropped. A
// control message is free then.
func (l *links) clear(o *outgoing) {
	o.body, o.remaining = nil, nil
	o.packed.clear()
	if o.req == nil {
		l.control.put(o)
	}
}

// sendControl sends a message that belongs to no send request.
func (l *links) sendControl(n int32, v wire.Envelope, w ...uint64) {
	o := l.control.take()
	o.header, o.length = wire.Header(v, w...)
	if _, err := l.post(n, o); err != nil && !errors.Is(err, fabric.ErrPeerClosed) {
		l.fail(n, err)
	}
}

// sendFailed must be called when a message cannot be sent any more.
func (l *links) sendFailed(n int32, o *outgoing, err error) {
	if errors.Is(err, fabric.ErrPeerClosed) {
		err = l.refused(n, err)
	} else {
		l.fail(n, err)
	}
	l.finishMessage(o, cmp.Or(l.failure.err, l.peer(n).finalized, err))
}

// finishMessage ends a message that was queued, or whose post has failed. err is nil if the message has
// been sent. Otherwise it is dropped because of err, and must have been counted as dropped.
func (l *links) finishMessage(o *outgoing, err error) {
	r := o.req
	if l.clear(o); r != nil {
		l.notified.finished(r, err)
	}
}

// flushBlocked sends queued messages as far as there is room. It reports whether it sent any.
func (l *links) flushBlocked() bool {
	sent, count := false, len(l.blocked)
	still := l.blocked[:0]
	for _, n := range l.blocked[:count] {
		p := l.peer(n)
		for p.head != nil {
			o := p.head
			err := l.trySend(p, o)
			if err == fabric.ErrAgain {
				break
			}
			p.head, o.queued = o.next, false
			sent = true
			if err != nil {
				l.rec.Dropped(o.kind())
				l.sendFailed(n, o, err)
				continue
			}
			l.finishMessage(o, nil)
		}
		if p.head != nil && l.failure.err == nil {
			still = append(still, n)
			continue
		}
		p.listed = false
		p.updateMaxEager()
	}
	// What a message that leaves ends may queue messages to other peers, which are listed
	// meanwhile.
	l.blocked = append(still, l.blocked[count:]...)
	return sent
}

// dropMessagesTo drops the messages to a process that the launcher has reported: announced must be
// set, so that there is an error to end them with. Its own messages may still arrive.
func (l *links) dropMessagesTo(n int32) {
	p := l.peer(n)
	for p.head != nil {
		o := p.head
		p.head, o.queued = o.next, false
		l.rec.Dropped(o.kind())
		l.finishMessage(o, p.gone(n))
	}
	p.updateMaxEager()
}
