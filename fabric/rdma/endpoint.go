package rdma

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

var _ fabric.Endpoint = (*endpoint)(nil)

// endpoint is the way to one peer. It is what there is of a connected peer besides its slots and queue pairs.
type endpoint struct {
	d     *domain
	peer  int
	ended atomic.Pointer[failure] // what every call answers from now on; atomic because Read and Write may run beside

	at       address // of the peer
	dest     *verbs.Dest
	hands    handshake
	lentOut  int    // of its messages, those in the inbox or lent
	expect   uint32 // what the peer expected when the connection was agreed on
	parting  bool   // the peer has said goodbye by a datagram, and that it has sent
	final    uint32 // so many messages
	in       inbound
	out      outbound
	keys     keyTable
	refused  int           // requests in a row to which there was no way
	tries    int           // connections that broke before anything came over them
	again    time.Duration // when to ask again, 0: not
	pause    time.Duration // until then
	patience int           // beats without a sign of life that are left, while there is no connection; 0: without end
	alive    bool          // a sign of life has come since the last beat
	missed   int           // beats without one
	beating  bool          // a beat is under way
	laden    bool          // when it began, much else was
	deaf     bool          // closed here: nothing more is told
	listed   bool          // in domain.live
	mute     bool          // the peer is still to be told that the connection stands
	bye      byeState
	over     []railed // what WithRail has returned, by rail

	// The rest is guarded by domain.mu.
	wanted   bool
	dirty    bool     // in domain.dirty
	up       bool     // requests may be posted
	queues   []*queue // by rail
	ahead    int      // bytes of transfers that may be under way at first over the next connection, 0: what is usual
	unsent   []record // messages to be sent again once the connection stands
	first    *op      // transfers that have not ended, oldest first
	last     *op
	unposted *op // first of those of which pieces are to be posted
}

// byeState is how far saying goodbye is.
type byeState uint8

const (
	byeNone byeState = iota
	byeDue           // to be sent
	byeSent
	byeDone // acknowledged
)

// Stream is a little more than one message: below that, parts cost less than the answer to an offer.
func (e *endpoint) Stream() int { return e.d.set.Stream }

func (e *endpoint) Send(header, payload []byte) error {
	if why := e.ended.Load(); why != nil {
		return why.err
	}
	d := e.d
	if n := len(header) + len(payload); n > d.caps.MaxSend {
		return fmt.Errorf("fabric/rdma: send: %d bytes, at most %d", n, d.caps.MaxSend)
	}
	if e.peer == d.self {
		return d.loop.send(header, payload)
	}
	if e.hands.phase != phaseUp || !e.out.room() {
		if e.hands.phase == phaseIdle {
			e.want()
		}
		return fabric.ErrAgain
	}
	slot, ok := d.sends.take()
	if !ok {
		return d.choke()
	}
	b := d.sends.slot(slot)
	n := headerBytes + len(header)
	if len(header) == 16 { // most have that, and a copy of known length is no call
		*(*[16]byte)(b[headerBytes:]) = [16]byte(header)
	} else {
		copy(b[headerBytes:], header)
	}
	if to := b[n:]; len(payload) == 8 && len(to) >= 8 { // likewise
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(payload))
		n += 8
	} else {
		n += copy(to, payload)
	}
	h := e.header(kindData)
	h.hungry = e.out.sent+1 == e.out.grant
	h.put(b)
	now, ok := e.post(record{work: workMessage, slot: slot, seq: h.seq, bytes: uint32(n)}, b[:n], ofData, false)
	if !ok {
		d.sends.give(slot)
		return d.choke()
	}
	e.out.sent++
	e.in.told = h.grant
	if now != nil {
		_ = now.Ring() // what fails is told by completions, or by the heart
	}
	return nil
}

// choke notes that a message waits for room. If it is found so only once the domain has been armed, nobody has asked to be told.
func (d *domain) choke() error {
	d.choked, d.calm = true, 0
	if d.armed.Load() && d.unheard() {
		if err := d.sleeper.wake(); err != nil {
			return err
		}
	}
	return fabric.ErrAgain
}

// header is that of the next message.
func (e *endpoint) header(k kind) header {
	return header{seq: e.out.sent, grant: e.in.grant(), heard: e.out.grant, kind: k}
}

// post posts a message on the first queue pair, if fewer than limit requests are under way. It returns the pair if the device is
// to be told of it at once: because it is the first since the last Poll, which may be all that its sender has to say, because
// nothing else is under way, or because enough has gathered. The others wait for the next Poll.
func (e *endpoint) post(r record, b []byte, limit int, must bool) (now *verbs.QP, ok bool) {
	d := e.d
	d.mu.Lock()
	if !e.up || e.queues[0].under() >= limit || d.under[0] >= e.queues[0].rail.most {
		d.mu.Unlock()
		return nil, false
	}
	q := e.queues[0]
	f := q.flags(must)
	var err error
	if len(b) <= q.inline {
		err = q.qp.SendInline(q.id(q.tail), f, b)
	} else {
		err = q.qp.Send(q.id(q.tail), f, d.sends.sge(r.slot, len(b)))
	}
	if err != nil { // the pair has failed, and its completions tell
		d.mu.Unlock()
		return nil, false
	}
	first := q.turn != d.turn || q.under() == 0
	q.turn = d.turn
	q.push(r, f)
	d.under[0]++
	if first || q.unrung >= coalesced {
		now, q.unrung = q.qp, 0
	} else {
		d.soil(e)
		d.remind()
	}
	d.mu.Unlock()
	return now, true
}

// ring tells the devices of all that was posted.
func (e *endpoint) ring() {
	e.d.mu.Lock()
	e.dirty = false
	queues := e.queues
	for _, q := range queues {
		q.unrung = 0
	}
	e.d.mu.Unlock()
	for _, q := range queues {
		_ = q.qp.Ring() // what fails is told by completions, or by the heart
	}
}

// want has the next Poll connect.
func (e *endpoint) want() {
	e.d.mu.Lock()
	e.wantLocked()
	e.d.mu.Unlock()
}

// wantLocked is want for a caller that holds the lock.
func (e *endpoint) wantLocked() {
	if !e.wanted {
		e.wanted = true
		e.d.wanting = append(e.d.wanting, e)
		e.d.wants.Store(true)
	}
}

// notice sends a message without data as soon as the peer has a slot for it.
func (d *domain) notice(e *endpoint, k kind) {
	switch {
	case d.tryNotice(e, k):
	case k == kindBye:
		e.bye = byeDue
		d.say(e, saidBye, pair{}) // since nobody may poll this side any more
	case !e.in.unheard && e.hands.phase == phaseUp:
		e.mute = e.mute || k == kindHello
		d.owing = append(d.owing, e)
	}
}

// tryNotice sends a message without data, if the peer has a slot for it. A grant is tried again when there is more to grant.
func (d *domain) tryNotice(e *endpoint, k kind) bool {
	if e.hands.phase != phaseUp || e.in.unheard && !(k == kindBye && e.out.room()) {
		return false
	}
	slot, ok := d.sends.take()
	if !ok {
		return false
	}
	b := d.sends.slot(slot)[:headerBytes]
	h := e.header(k)
	h.put(b)
	r := record{work: workNotice, slot: slot}
	if k == kindBye {
		r.work = workBye
	}
	if _, ok := e.post(r, b, depth, k == kindBye); !ok {
		d.sends.give(slot)
		return false
	}
	e.in.told, e.in.asked, e.in.unheard = h.grant, h.grant, true
	if k == kindBye {
		e.bye = byeSent
	}
	e.mute = false
	e.ring()
	return true
}

func (e *endpoint) Close() error {
	if !e.ended.CompareAndSwap(nil, &errEnd) {
		return nil
	}
	d := e.d
	e.deaf = true
	if e.peer == d.self {
		d.loop.clear()
		return nil
	}
	d.mu.Lock()
	moving := e.first != nil
	d.mu.Unlock()
	switch {
	case e.hands.phase == phaseUp && !moving:
		d.notice(e, kindBye)
	case e.hands.phase == phaseIdle && !moving:
		d.part(e)
	default: // what is under way ends first, so that no device writes to memory that its owner has back
		d.say(e, saidBye, pair{})
		d.broke(e, errEnd.err)
	}
	return nil
}
