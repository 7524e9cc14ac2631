package proto

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// dispatcher hands each message to the part that it belongs to. It is called with the lock of the
// engine.
type dispatcher struct {
	direct     directRecv
	rec        *record.Recording
	links      *links
	contexts   *Contexts
	requests   *Requests
	sends      *sends
	receives   *receives
	unexpected *unexpectedStore
	departures *departures
	flushes    *flushes
	checks     *Checks
	clock      *Clock
}

// handleMessage handles one message from the transport. It returns false for a message that no
// correct engine sends. Eager messages with a posted receive, the most frequent, are handled here;
// dispatch handles the others.
func (d *dispatcher) handleMessage(peer int32, b []byte) bool {
	if len(b) < wire.EnvelopeBytes {
		return false
	}
	n := len(b) - wire.EnvelopeBytes
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if x := &d.direct; first == x.first && second == x.second && n <= len(x.buf) && first != 0 {
		x.first, x.length = 0, n
		copyPayload(x.buf, b[wire.EnvelopeBytes:])
	} else {
		if x.first != 0 {
			d.postDirect()
		}
		source, tag := int32(second), int32(second>>32)
		if uint64(uint32(first)) != d.rec.FastKind || source < 0 || tag < 0 {
			return d.dispatch(peer, b)
		}
		r := d.contexts.table(uint32(first>>32)).TakePosted(source, tag)
		if r == nil {
			return d.dispatch(peer, b)
		}
		d.receives.deliver(r, source, tag, b[wire.EnvelopeBytes:])
	}
	p := d.links.peers[peer]
	if p == nil || p.link.Zero() {
		d.links.linkTo(peer).In(n)
	} else {
		p.link.In(n)
	}
	return true
}

// dispatch handles any message.
func (d *dispatcher) dispatch(peer int32, b []byte) bool {
	v, w, payload, err := wire.Parse(b)
	if err != nil {
		return false
	}
	ok := d.handle(peer, v, w, payload)
	d.rec.Handled(v.Kind)
	return ok
}

// handle is dispatch for a message that has been parsed.
func (d *dispatcher) handle(peer int32, v wire.Envelope, w [5]uint64, payload []byte) bool {
	switch v.Kind {
	case wire.Eager, wire.EagerSync, wire.RTS:
		return d.receives.handleFirst(peer, v, w, payload)
	case wire.FirstFrag:
		return d.receives.handleFirstFrag(peer, v, w, payload)
	case wire.Frag:
		return d.receives.handleFrag(peer, payload)
	case wire.FIN:
		return d.sends.handleFIN(peer, w)
	case wire.Assist:
		return d.sends.handleAssist(peer, w)
	case wire.ATP:
		return d.receives.handleATP(peer, w)
	case wire.DataRequest:
		return d.sends.handleDataRequest(peer, w)
	case wire.Data:
		return d.receives.handleData(peer, w, payload)
	case wire.Pause, wire.Resume:
		d.sends.handlePause(peer, v.Kind == wire.Pause)
	case wire.RTR:
		return d.sends.handleRTR(peer, v, w)
	case wire.Put:
		return d.receives.handlePut(peer, v, w)
	case wire.RTRCancel:
		d.sends.handleRTRCancel(peer, w)
	case wire.RTRCancelAck:
		d.receives.handleRTRCancelAck(peer, w)
	case wire.ClockPing, wire.ClockPong, wire.ClockAdjust, wire.ClockState:
		return d.clock.handle(peer, v.Kind, w)
	case wire.Watch:
		d.departures.handleWatch(peer, v.Context)
	case wire.Left:
		return d.departures.handleLeft(peer, v.Context, w)
	case wire.Refuse:
		return d.departures.handleRefuse(peer, w)
	case wire.Note:
		return d.checks.table.Receive(peer, w[0], payload)
	case wire.Withdraw:
		return d.unexpected.handleWithdraw(d.contexts.table(v.Context), peer, v, w)
	case wire.Withdrawn:
		return d.sends.handleWithdrawn(peer, w)
	case wire.Flush:
		d.links.sendControl(peer, wire.Envelope{Kind: wire.Flushed}, w[0])
	case wire.Flushed:
		return d.flushes.handleFlushed(peer, w)
	case wire.Elapsed:
		return d.sends.handleElapsed(peer, w)
	}
	return true
}

// handleFirst matches an eager message or an RTS with a posted receive, or stores it.
func (x *receives) handleFirst(peer int32, v wire.Envelope, w [5]uint64, payload []byte) bool {
	if v.Rank < 0 || v.Tag < 0 || v.Kind == wire.RTS && w[0]&^cost.AllMarks > maxBytes {
		return false
	}
	x.countEpoch(peer, v)
	number, note := x.links.countReceived(peer), x.notes.Take(peer)
	if v.Kind != wire.RTS {
		x.links.linkTo(peer).In(len(payload))
	}
	t := x.contexts.table(v.Context)
	r := t.TakePosted(v.Rank, v.Tag)
	if r == nil {
		if x.contexts.refuses(v.Context, t) {
			x.unexpected.noteDropped(v, note)
			x.unexpected.refuse(peer, v, w, x.contexts.ended.IsFreed(v.Context))
			return true
		}
		m := x.unexpected.store(peer, v, w, payload, len(payload))
		m.number = number
		x.unexpected.setNote(m, note)
		t.AddUnexpected(&m.node, v.Rank, v.Tag)
		return true
	}
	if x.rec.Trace != nil {
		x.rec.Matched(peer, v, number, messageBytes(v, w, payload))
	}
	x.noteMatched(r, note, v.Rank)
	switch v.Kind {
	case wire.Eager:
		x.deliver(r, v.Rank, v.Tag, payload)
	case wire.EagerSync:
		x.links.sendControl(peer, wire.Envelope{Kind: wire.FIN}, w[0])
		x.deliver(r, v.Rank, v.Tag, payload)
	case wire.RTS:
		x.startRendezvous(r, peer, v, w, true)
	}
	return true
}
