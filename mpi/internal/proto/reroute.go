package proto

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// A peer may be reached by another domain from one event on (fabric.Rerouted): because the devices
// do not reach each other, or because one of them is lost. Messages before the event name memory
// that is registered with the domain that is left; nobody can read or write it any more. So all
// that has not begun goes on as if the peer could not access the memory: the payload is sent
// through the transport. The other side of each transfer does what it does for memory that cannot
// be registered:
//
//   - An RTS that has arrived names no memory from now on: its payload is requested in pieces.
//   - A read that has not ended, or ends because the domain is left, is replaced by a request for
//     the pieces.
//   - An RTR that has arrived, or that is still to be sent, names no memory: the message is sent in
//     pieces.
//   - A write to the buffer of an RTR that has not ended is replaced by pieces. Put was sent, so
//     its receive takes them.
//
// Messages that wait for room are prepared again: the limits of the domain may differ, and memory
// must be registered with it.

// reroute connects to a peer that another domain reaches from now on, and moves through the
// transport what no goroutine has begun to move.
func (e *Engine) reroute(n int32) {
	for _, t := range e.sends.reroute(n) {
		if t.req.send {
			t.state = transferNone
			e.sends.sendNextData(t.req)
		} else {
			e.receives.requestData(t)
		}
	}
}

// reroute connects to a peer that another domain reaches from now on. It returns the transfers with
// the peer that no goroutine has begun; they are not in the queue any more.
func (x *sends) reroute(n int32) []*transfer {
	p := x.links.peer(n)
	p.moves++
	p.noRemoteAccess = false
	x.rtr.SetKeys(n, unreadable.Remote)
	if p.ep == nil || p.finalized != nil || p.announced {
		return nil // nothing was sent to it, or nothing will be
	}
	unstarted := x.takeUnstarted(n)
	waiting := p.head
	for o := waiting; o != nil; o = o.next {
		if o.req != nil {
			x.releaseSend(o.req)
		}
	}
	p.ep, p.pusher, p.gatherer, p.deferrer, p.path, p.measured = nil, nil, nil, nil, nil, nil
	if err := x.links.connect(n); err != nil {
		x.links.fail(n, err)
		return nil
	}
	p.head, p.tail = nil, nil
	for o := waiting; o != nil; {
		next := o.next
		if err := x.prepareAgain(o, p); err != nil {
			o.queued = false
			x.rec.Dropped(o.kind())
			x.links.finishMessage(o, err)
		} else if o.next = nil; p.head == nil {
			p.head, p.tail = o, o
		} else {
			p.tail.next, p.tail = o, o
		}
		o = next
	}
	p.updateMaxEager()
	return unstarted
}

// takeUnstarted removes the transfers with a peer that no goroutine has begun.
func (q *transferQueue) takeUnstarted(n int32) (list []*transfer) {
	for t := q.head; t != nil; t = t.next {
		if t.peer == n && t.claims == nil && t.state != transferSchedule {
			list = append(list, t)
		}
	}
	for _, t := range list {
		q.remove(t)
	}
	return list
}

// prepareAgain prepares a message that waits for room again, for another endpoint. What a send has
// registered was released.
func (x *sends) prepareAgain(o *outgoing, p *peer) error {
	switch k := o.kind(); {
	case k == wire.RTR:
		binary.LittleEndian.PutUint64(o.header[wire.EnvelopeBytes+8:], wire.NoWord)
		binary.LittleEndian.PutUint64(o.header[wire.EnvelopeBytes+16:], wire.NoWord)
	case o.req == nil || k == wire.Put: // Put is followed by pieces, see releaseSend
	case k == wire.Frag:
		if q := &o.packed; q.data != nil {
			q.rest += q.n
			q.n = min(q.rest, p.path.packedPiece)
			q.rest -= q.n
			return nil
		}
		rest := o.body[:len(o.body)+len(o.remaining)] // they follow each other in the user's buffer
		n := min(len(rest), p.path.thresholds.FragmentSize)
		o.body, o.remaining = rest[:n], rest[n:]
	case k == wire.Data:
		o.req.transfer.offset -= len(o.body) + o.packed.n
		o.req.prepareData(p)
	default:
		return x.prepareFirst(o.req, p, x.hints.byContext[o.req.route.Context])
	}
	return nil
}
