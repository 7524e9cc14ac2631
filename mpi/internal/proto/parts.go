package proto

import "github.com/ibrun/ibrun/perf"

// The form of a message that is longer than the transport carries at once and still short enough that two copies
// through it, made at the same time by sender and receiver, are faster than asking the receiver to read: it goes in
// several parts, one behind the other, without waiting for the receive.

// part is a message that comes in parts, of which there is one at a time from a peer. Where neither request nor message
// is set, nobody wants what still comes.
type part struct {
	bytes int      // that have come
	whole int      // length of the payload; 0: no message is coming
	to    Handle   // the request that receives it
	m     *arrived // or the message is kept, since no receive has matched it
}

// longCame handles LONG: the first part of a message.
func (e *Engine) longCame(peer int32, v envelope, w [5]uint64, payload []byte) bool {
	p := &e.peer(peer).part
	if v.Rank < 0 || v.Tag < 0 || p.whole != 0 || w[0] > maxLong || w[0] <= uint64(len(payload)) {
		return false
	}
	e.see(peer, v)
	number := e.came(peer)
	*p = part{bytes: len(payload), whole: int(w[0])}
	e.linkTo(peer).InBy(perf.Parts, p.whole)
	t := e.table(v.context)
	r := t.TakePosted(v.Rank, v.Tag)
	switch {
	case r != nil:
		e.met(peer, v, number, p.whole)
		e.begin(p, r, v, payload)
	case t != &e.dead:
		p.m = e.keep(peer, v, w, payload, p.whole)
		p.m.number = number
		t.AddUnexpected(&p.m.waiting, v.Rank, v.Tag)
	}
	return true
}

// maxLong bounds the length that a peer may claim a message in parts to have: it is taken in whole, whether anybody
// receives it or not.
const maxLong = 16 << 20

// begin gives what has come to a receive, which completes when all has.
func (e *Engine) begin(p *part, r *Request, v envelope, payload []byte) {
	p.to, p.m = r.handle(), nil
	copy(r.buf, payload)
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: min(p.whole, len(r.buf))}
}

// acceptLong gives a kept message to a receive, perhaps before all of it has come.
func (e *Engine) acceptLong(r *Request, m *arrived) {
	if p := &e.peer(m.peer).part; p.m == m {
		e.begin(p, r, m.v, m.data[:p.bytes])
		return
	}
	e.deliver(r, m.v.Rank, m.v.Tag, m.data)
}

// ignore says that nobody will receive a message of which parts may still come.
func (e *Engine) ignore(m *arrived) {
	if p := &e.peer(m.peer).part; p.m == m {
		p.m = nil
	}
}

// moreCame handles MORE: the next part of the message that is coming.
func (e *Engine) moreCame(peer int32, payload []byte) bool {
	p := &e.peer(peer).part
	if len(payload) == 0 || len(payload) > p.whole-p.bytes {
		return false
	}
	at := p.bytes
	p.bytes += len(payload)
	if p.m != nil {
		copy(p.m.data[at:], payload)
	} else if r := p.to.r; r != nil && r.gen == p.to.gen && r.state == active { // it may have failed meanwhile
		if at < len(r.buf) {
			copy(r.buf[at:], payload)
		}
		if p.bytes == p.whole {
			var err error
			if p.whole != len(r.buf) {
				err = e.misfit(r, p.whole)
			}
			e.complete(r, err)
		}
	}
	if p.bytes == p.whole {
		*p = part{}
	}
	return true
}
