package proto

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// handleMessage handles one message from the transport. It returns false for a message that no correct engine sends. Eager
// messages with a posted receive, the most frequent, are handled here; dispatch handles the others.
func (e *Engine) handleMessage(peer int32, b []byte) bool {
	if len(b) < wire.EnvelopeBytes {
		return false
	}
	n := len(b) - wire.EnvelopeBytes
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if d := &e.direct; first == d.first && second == d.second && n <= len(d.buf) && first != 0 {
		d.first, d.length = 0, n
		copyPayload(d.buf, b[wire.EnvelopeBytes:])
	} else {
		if d.first != 0 {
			e.postDirect()
		}
		source, tag := int32(second), int32(second>>32)
		if uint64(uint32(first)) != e.rec.FastKind || source < 0 || tag < 0 {
			return e.dispatch(peer, b)
		}
		r := e.contexts.table(uint32(first>>32)).TakePosted(source, tag)
		if r == nil {
			return e.dispatch(peer, b)
		}
		e.receives.deliver(r, source, tag, b[wire.EnvelopeBytes:])
	}
	p := e.links.peers[peer]
	if p == nil || p.link.Zero() {
		e.links.linkTo(peer).In(n)
	} else {
		p.link.In(n)
	}
	return true
}

// dispatch handles any message.
func (e *Engine) dispatch(peer int32, b []byte) bool {
	v, w, payload, err := wire.Parse(b)
	if err != nil {
		return false
	}
	ok := e.handle(peer, v, w, payload)
	e.rec.Handled(v.Kind)
	return ok
}

// handle is dispatch for a message that has been parsed.
func (e *Engine) handle(peer int32, v wire.Envelope, w [5]uint64, payload []byte) bool {
	switch v.Kind {
	case wire.Eager, wire.EagerSync, wire.RTS:
		return e.receives.handleFirst(peer, v, w, payload)
	case wire.FirstFrag:
		return e.receives.handleFirstFrag(peer, v, w, payload)
	case wire.Frag:
		return e.receives.handleFrag(peer, payload)
	case wire.FIN:
		return e.sends.handleFIN(peer, w)
	case wire.Assist:
		return e.sends.handleAssist(peer, w)
	case wire.ATP:
		return e.receives.handleATP(peer, w)
	case wire.DataRequest:
		return e.sends.handleDataRequest(peer, w)
	case wire.Data:
		return e.receives.handleData(peer, w, payload)
	case wire.Pause, wire.Resume:
		e.sends.handlePause(peer, v.Kind == wire.Pause)
	case wire.RTR:
		return e.sends.handleRTR(peer, v, w)
	case wire.Put:
		return e.receives.handlePut(peer, v, w)
	case wire.RTRCancel:
		e.sends.handleRTRCancel(peer, w)
	case wire.RTRCancelAck:
		e.receives.handleRTRCancelAck(peer, w)
	case wire.ClockPing, wire.ClockPong, wire.ClockAdjust, wire.ClockState:
		return e.clock.handle(peer, v.Kind, w)
	case wire.Watch:
		e.departures.handleWatch(peer, v.Context)
	case wire.Left:
		return e.departures.handleLeft(peer, v.Context, w)
	case wire.Refuse:
		return e.departures.handleRefuse(peer, w)
	case wire.Note:
		return e.checks.table.Receive(peer, w[0], payload)
	case wire.Withdraw:
		return e.unexpected.handleWithdraw(e.contexts.table(v.Context), peer, v, w)
	case wire.Withdrawn:
		return e.sends.handleWithdrawn(peer, w)
	case wire.Flush:
		e.links.sendControl(peer, wire.Envelope{Kind: wire.Flushed}, w[0])
	case wire.Flushed:
		return e.flushes.handleFlushed(peer, w)
	case wire.Elapsed:
		return e.sends.handleElapsed(peer, w)
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
