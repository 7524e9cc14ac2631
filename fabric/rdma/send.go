package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

func (e *endpoint) Send(header, payload []byte) error {
	if why := e.ended.Load(); why != nil {
		return why.sendError()
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
			d.cm.request(e)
		}
		return fabric.ErrAgain
	}
	slot, ok := d.poster.Sends.Take()
	if !ok {
		return d.blockSend()
	}
	b := d.poster.Sends.Mem(slot)
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
	h := e.msgs.Header(messages.Data)
	h.NeedsCredits = e.msgs.Out.Sent+1 == e.msgs.Out.Grant
	h.Put(b)
	d, r := e.d, posting.Request{Kind: posting.Message, Slot: slot, Seq: h.Seq, Bytes: uint32(len(b))}
	qp, err := d.poster.Message(&e.lanes, r, b, posting.ShareMessages, false, d.clock.Polls)
	if !e.posted(err) {
		d.poster.Sends.Give(slot)
		return d.blockSend()
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
	d.sleeper.SendBlocked, d.clock.FastPolls = true, 0
	if d.sleeper.Armed() && d.sleeper.SendsMissing() {
		if err := d.sleeper.Wake(); err != nil {
			return err
		}
	}
	return fabric.ErrAgain
}

// posted reports whether a message was posted. Otherwise there is no room, or posting has shown that the connection is broken.
func (e *endpoint) posted(err error) bool {
	if err != nil && err != posting.ErrNoRoom {
		e.declareBroken(err)
	}
	return err == nil
}
