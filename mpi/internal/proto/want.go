package proto

import (
	"errors"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
)

// The form of a large message where the receiver asserts that messages fill their buffers: the receive, when it is posted,
// tells the sender where the buffer is, and the sender writes at once.
//
// The sender must be sure that its next message with that tag goes to that receive. It is if it has taken in all wants of
// the receives ahead, which the receiver counts, and if nothing was under way that the receiver had not seen when it wrote the
// want: messages of such a context are counted by both. Otherwise the sender forgets the want, and the receive gets a
// message like any other. Messages carry the epoch in which they are counted; the receiver says nothing before the first has
// come, so whatever was sent before the count began has come as well.

// maxWants bounds what a sender remembers for a receiver.
const maxWants = 256

// lane is what two processes know of each other's messages in a context where buffers are announced.
type lane struct {
	epoch uint32   // in which the peer's messages are counted
	seen  uint32   // of the peer's messages
	sent  uint32   // of ours
	wants []target // of the peer, in order
}

// target is a buffer that a receive has announced.
type target struct {
	tag   int32
	bytes int
	id    uint64 // the peer's request
	key   fabric.RemoteKey
}

// lane is that of a context and a process.
func (e *Engine) lane(context uint32, peer int32) *lane {
	ls := e.lanes[context]
	if ls == nil {
		if e.lanes == nil {
			e.lanes = map[uint32]map[int32]*lane{}
		}
		ls = map[int32]*lane{}
		e.lanes[context] = ls
	}
	l := ls[peer]
	if l == nil {
		l = new(lane)
		ls[peer] = l
	}
	return l
}

// forgetWants begins to count anew, without wants.
func (e *Engine) forgetWants(context uint32) {
	for _, l := range e.lanes[context] {
		l.sent, l.wants = 0, nil
	}
}

// see counts a message that has come.
func (e *Engine) see(peer int32, v envelope) {
	if v.epoch == 0 || e.stale(v.context) {
		return
	}
	l := e.lane(v.context, peer)
	if l.epoch != v.epoch {
		l.epoch, l.seen = v.epoch, 0
	}
	l.seen++
}

// advertise announces the buffer of a receive that has just been posted, if the sender can use that.
func (e *Engine) advertise(r *Request) {
	h := e.hints[r.route.Context]
	if h == nil || !h.ExactLength || r.route.Rank < 0 || r.route.Tag < 0 || int(r.route.Rank) >= len(h.Peers) {
		return
	}
	n := h.Peers[r.route.Rank]
	l := e.lanes[r.route.Context][n]
	same, open := e.table(r.route.Context).CountAhead(r.route.Rank, r.route.Tag)
	if open || l == nil || l.epoch != h.Epoch || same > maxWants || e.connect(n) != nil {
		return
	}
	p := e.peer(n)
	if p.way.rules.Choose(len(r.buf), p.ep.Stream(), false) <= Fragmented {
		return
	}
	if p.way.caps.Read && !p.way.caps.Write && !p.copies {
		return // reading it is faster than taking in copies
	}
	t := &r.move
	at := unreadable.Remote // nor can it be written
	t.local = regcache.Memory{}
	if p.way.caps.Write && !p.copies {
		if m, err := p.way.hold(r.buf); err == nil {
			t.local, at = m, m.Remote
		} else if !e.copiable(err) {
			return
		}
	}
	t.peer, t.form, t.whole, t.bytes = n, nothing, len(r.buf), len(r.buf)
	r.ends |= announced
	v := envelope{kind: kindWant, context: r.route.Context, Match: r.route.Match, epoch: h.Epoch}
	e.note(n, v, r.id(), at.Addr, at.Key, uint64(len(r.buf)), uint64(l.seen)<<32|uint64(same-1))
}

// wanted handles WANT.
func (e *Engine) wanted(peer int32, v envelope, w [5]uint64) bool {
	if v.Tag < 0 || w[3] == 0 || w[3] > maxBytes {
		return false
	}
	h := e.hints[v.context]
	if h == nil || v.epoch == 0 || h.Epoch != v.epoch {
		return true
	}
	l := e.lane(v.context, peer)
	same := 0
	for i := range l.wants {
		if l.wants[i].tag == v.Tag {
			same++
		}
	}
	if l.sent == uint32(w[4]>>32) && same == int(uint32(w[4])) && len(l.wants) < maxWants {
		l.wants = append(l.wants, target{v.Tag, int(w[3]), w[0], fabric.RemoteKey{Addr: w[1], Key: w[2]}})
	}
	return true
}

// meet counts a message that is about to be sent, and finds the want that it meets: ok if it may be written there.
func (l *lane) meet(tag int32, bytes int) (w target, ok bool) {
	l.sent++
	for i := range l.wants {
		if w = l.wants[i]; w.tag == tag {
			copy(l.wants[i:], l.wants[i+1:])
			l.wants = l.wants[:len(l.wants)-1]
			return w, w.bytes == bytes
		}
	}
	return w, false
}

// put sends a message to where it is wanted: first that it comes, so that nothing sent later is taken for it.
func (e *Engine) put(r *Request, w target) error {
	p, t := e.peer(r.route.Peer), &r.move
	t.peer, t.id, t.key = r.route.Peer, w.id, w.key
	t.bytes, t.offset, t.helping, t.claims, t.form, t.after = len(r.buf), 0, 0, nil, nothing, 0
	word := noWord
	if p.way.caps.Write && !p.copies && w.key != unreadable.Remote {
		memory, err := p.way.hold(r.buf)
		switch {
		case err == nil:
			r.memory, t.form = memory, putting
			if word = e.reserve(r); word != noWord {
				t.claims = &p.outbound[word*wordStride]
			}
		case !e.copiable(err):
			return err
		}
	}
	t.local = r.memory
	o, at := &r.out, r.memory.Remote
	o.body, o.rest = nil, nil
	v := envelope{kindPut, r.route.Context, r.route.Match, r.epoch}
	o.header, o.length = header(v, w.id, at.Addr, at.Key, r.id(), word)
	p.link.OutBy(r.protocol(p), len(r.buf))
	e.left(r)
	return e.post(r.route.Peer, o)
}

// putSent is called when the peer has been told that a message comes.
func (e *Engine) putSent(r *Request) {
	if r.move.form == putting {
		e.moves.push(&r.move)
	} else {
		e.nextPiece(r)
	}
}

// write writes a message to where it was wanted. The lock is not held meanwhile.
func (e *Engine) write(t *transfer) {
	r, ep := t.req, e.over(t)
	buf, local, to, token := r.buf, t.local.Local, t.key, r.id()
	e.unlock()
	finished, err := ep.Write(buf, local, to, token)
	e.lock()
	if finished || err != nil { // otherwise the event may have come, and r be another's by now
		e.written(r, err)
	}
}

// written ends a write. What could not be written is copied.
func (e *Engine) written(r *Request, err error) {
	t := &r.move
	t.form = nothing
	if err != nil {
		if errors.Is(err, fabric.ErrNotSupported) {
			e.peer(t.peer).copies = true
		}
		e.nextPiece(r)
		return
	}
	e.note(t.peer, envelope{kind: kindWrote}, t.id, 1)
	e.sentAll(r)
}

// putCame handles PUT: the sender writes to the buffer of a receive, or sends copies for it.
func (e *Engine) putCame(peer int32, v envelope, w [5]uint64) bool {
	r := e.byID(w[0])
	if r == nil || r.send || r.ends&announced == 0 || r.move.peer != peer || r.move.form != nothing ||
		r.route.Context != v.context || r.route.Tag != v.Tag || r.route.Rank != v.Rank || !r.pending() {
		return false
	}
	t := &r.move
	if w[4] != noWord {
		p := e.peer(peer)
		if p.inbound == nil && e.pairer != nil {
			p.inbound = e.pairer.Words(int(peer), true)
		}
		if w[4] >= noWord/wordStride || w[4]*wordStride >= uint64(len(p.inbound)) {
			return false
		}
		t.claims = &p.inbound[w[4]*wordStride]
	} else {
		t.claims = nil
	}
	e.see(peer, v)
	e.met(peer, v, e.came(peer), t.bytes)
	if r.posted.Posted() {
		e.table(v.context).RemovePosted(&r.posted)
	}
	t.id, t.key, t.offset, t.helping, t.form = w[3], fabric.RemoteKey{Addr: w[1], Key: w[2]}, 0, -1, taking
	r.route.Peer = peer
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: t.bytes}
	if t.claims != nil {
		t.form = reading
		e.moves.push(t)
	}
	return true
}

// pending tells whether an announced receive may still be written to: no other message has been given to it.
func (r *Request) pending() bool { return r.posted.Posted() || r.verdict != nil }

// revoke takes an announced receive back. It completes with err, or as cancelled if that is nil, when the sender has
// forgotten the want; or with the message, if the sender has begun to write.
func (e *Engine) revoke(r *Request, err error) {
	if r.ends&revoked == 0 {
		e.note(r.move.peer, envelope{kind: kindUnwant}, r.id())
	}
	r.ends |= revoked
	r.verdict = err
	if e.peer(r.move.peer).left != nil {
		e.takeBack(r)
	}
}

// forgotBy takes back what waits for the answer of a process that has left, or for what it was to write. What is being read ends
// by itself.
func (e *Engine) forgotBy(n int32) {
	for _, block := range e.requests {
		for i := range block {
			r := &block[i]
			reads := r.move.form == reading && r.move.offset < r.move.bytes
			if r.state == active && !r.send && r.ends&revoked != 0 && r.move.peer == n && !reads {
				e.takeBack(r)
			}
		}
	}
}

// unwanted handles UNWANT.
func (e *Engine) unwanted(peer int32, w [5]uint64) {
	for _, ls := range e.lanes {
		l := ls[peer]
		if l == nil {
			continue
		}
		for i := range l.wants {
			if l.wants[i].id == w[0] {
				l.wants = append(l.wants[:i], l.wants[i+1:]...)
				break
			}
		}
	}
	e.note(peer, envelope{kind: kindForgot}, w[0])
}

// forgot handles FORGOT. A PUT comes before it if the sender used the want.
func (e *Engine) forgot(peer int32, w [5]uint64) {
	r := e.byID(w[0])
	if r == nil || r.send || r.ends&revoked == 0 || r.move.peer != peer || r.move.form != nothing || !r.pending() {
		return
	}
	e.takeBack(r)
}

// takeBack completes a receive that has been revoked.
func (e *Engine) takeBack(r *Request) {
	if r.posted.Posted() {
		e.table(r.route.Context).RemovePosted(&r.posted)
	}
	if r.verdict == nil {
		r.status = Status{Source: AnySource, Tag: AnyTag, Cancelled: true}
	}
	r.move.form = nothing
	e.complete(r, r.verdict)
}

// unannounce ends what an announced receive held.
func (e *Engine) unannounce(r *Request) {
	r.ends &^= announced | revoked
	r.verdict = nil
	if t := &r.move; t.local != (regcache.Memory{}) {
		// The domain that cannot is broken, and says so when polled.
		_ = e.peer(t.peer).way.release(t.local)
		t.local = regcache.Memory{}
	}
}
