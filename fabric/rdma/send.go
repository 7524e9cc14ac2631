package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

func (e *endpoint) Send(header, payload []byte) error {
	if why := e.ended.Load(); why != nil {
		return e.sendError(why)
	}
	d := e.d
	if n := len(header) + len(payload); n > d.caps.MaxSend {
		return fmt.Errorf("fabric/rdma: send to peer %d: message of %d bytes is longer than the limit of %d", e.peer, n,
			d.caps.MaxSend)
	}
	if e.peer == d.self {
		return d.events.Loopback.Send(header, payload)
	}
	if e.conn.State != cm.StateEstablished || !e.msgs.Out.HasCredit() {
		if e.conn.State == cm.StateIdle {
			e.requestConnect()
		}
		return fabric.ErrAgain
	}
	slot, ok := d.sends.Take()
	if !ok {
		return d.blockSend()
	}
	b := d.sends.Mem(slot)
	n := messages.HeaderBytes + len(header)
	if len(header) == 16 { // most headers are, and a copy of known length needs no call
		*(*[16]byte)(b[messages.HeaderBytes:]) = [16]byte(header)
	} else {
		copy(b[messages.HeaderBytes:], header)
	}
	if to := b[n:]; len(payload) == 8 && len(to) >= 8 { // no call here either
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(payload))
		n += 8
	} else {
		n += copy(to, payload)
	}
	return e.sendSlot(slot, b[:n])
}

// sendSlot sends the message in a slot: b, but for its header, which is written here.
func (e *endpoint) sendSlot(slot uint32, b []byte) error {
	h := e.header(messages.Data)
	h.NeedsCredits = e.msgs.Out.Sent+1 == e.msgs.Out.Grant
	h.Put(b)
	qp, ok := e.post(request{kind: requestMessage, slot: slot, seq: h.Seq, bytes: uint32(len(b))}, b, shareMessages, false)
	if !ok {
		e.d.sends.Give(slot)
		return e.d.blockSend()
	}
	e.msgs.Out.Sent++
	e.msgs.In.Granted = h.Grant
	if qp != nil {
		_ = qp.Ring() // an error shows in completions or by the keepalive
	}
	return nil
}

// blockSend records that a message waits for a slot or for room in a queue, and returns ErrAgain. If the domain is armed
// already, no event may report that there is room. Then it wakes the caller, so that it arms again.
func (d *domain) blockSend() error {
	d.sleeper.SendBlocked, d.fastPolls = true, 0
	if d.sleeper.Armed() && d.sleeper.SendsMissing() {
		if err := d.sleeper.Wake(); err != nil {
			return err
		}
	}
	return fabric.ErrAgain
}

// header returns the header of the next message.
func (e *endpoint) header(k messages.Kind) messages.Header {
	return messages.Header{Seq: e.msgs.Out.Sent, Grant: e.msgs.In.Grant(), GrantSeen: e.msgs.Out.Grant, Kind: k}
}

// post posts a message on the first queue pair, if its share of the queue has room. If the doorbell is a store, post rings it. If
// it is a system call, post returns the queue pair if its doorbell is to be rung immediately: because this is the first message
// since the last Poll, which may be the only one, because nothing else is in flight, or because enough messages have gathered.
// Otherwise the next Poll rings it.
func (e *endpoint) post(r request, b []byte, part share, signal bool) (ringNow *verbs.QP, ok bool) {
	d := e.d
	d.mu.Lock()
	if !e.canPost || !d.hasRoom(e.qps[0], part) {
		d.mu.Unlock()
		return nil, false
	}
	q := e.qps[0]
	f := q.signalFlags(signal || d.inFlight[0] >= q.rail.signalAll) | d.doorbells.atOnce
	var err error
	if len(b) <= q.inline {
		err = q.qp.SendInline(q.wrID(q.tail), f, b)
	} else {
		err = q.qp.Send(q.wrID(q.tail), f, d.sends.SGE(r.slot, len(b)))
	}
	if err != nil {
		idle := q.inFlight() == 0
		d.mu.Unlock()
		if idle || !errors.Is(err, verbs.ErrFull) { // else there is room when others have completed
			d.declareBroken(e, err)
		}
		return nil, false
	}
	if d.doorbells.atOnce != 0 {
		q.push(r, f)
		d.inFlight[0]++
		q.unrung = 0
		d.mu.Unlock()
		return nil, true
	}
	first := q.lastPoll != d.clock.Polls || q.inFlight() == 0
	q.lastPoll = d.clock.Polls
	q.push(r, f)
	d.inFlight[0]++
	if first || q.unrung >= maxUnrung {
		ringNow, q.unrung = q.qp, 0
	} else {
		d.doorbells.deferRing(e)
		d.doorbells.startTimer()
	}
	d.mu.Unlock()
	return ringNow, true
}
