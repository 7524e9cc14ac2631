package proto

import (
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Eager messages are sent without waiting for the receive. A message may be too long for one
// message of the transport, and too short for a rendezvous. It is faster then if sender and
// receiver both copy it, at the same time. Such a message is sent in fragments, one directly after
// the other.

// prepareEager makes the request's first message an eager one: a synchronous one, the first
// fragment, or the whole message. marks are set if the fragments are to be measured.
func (r *Request) prepareEager(p protocols.Protocol, fragmentSize int, marks uint64) {
	v := wire.Envelope{Context: r.route.Context, Match: r.route.Match, Epoch: r.epoch}
	o := &r.out
	o.body, o.remaining, o.marks = r.buf, nil, 0
	size := r.size()
	if r.data != nil {
		o.packed = packed{r.data, 0, size, 0}
	}
	switch {
	case r.mode == Synchronous:
		v.Kind = wire.EagerSync
		o.header, o.length = wire.Header(v, r.id())
	case p == protocols.Fragmented:
		v.Kind = wire.FirstFrag
		o.header, o.length = wire.Header(v, uint64(size)|marks)
		if r.data != nil {
			o.packed.n, o.packed.rest = fragmentSize, size-fragmentSize
		} else {
			o.body, o.remaining = r.buf[:fragmentSize], r.buf[fragmentSize:]
			o.marks, o.spent = marks, 0
		}
	default:
		v.Kind = wire.Eager
		o.header, o.length = wire.Header(v)
	}
}

// assembly is a fragmented message that is arriving, at most one from each peer. If neither req nor
// m is set the rest of the message is dropped.
type assembly struct {
	received int                // bytes
	total    int                // length of the message; 0: no message is arriving
	req      Handle             // the request that receives it
	m        *unexpectedMessage // or the unexpected message that stores it
	elapsed  cost.Elapsed
}

// handleFirstFrag handles the first fragment of a message.
func (x *receives) handleFirstFrag(peer int32, v wire.Envelope, w [5]uint64, payload []byte) bool {
	a := &x.links.peer(peer).frags
	total := w[0] &^ cost.AllMarks
	if v.Rank < 0 || v.Tag < 0 || a.total != 0 || total > protocols.MaxFragmented || total <= uint64(len(payload)) {
		return false
	}
	x.countEpoch(peer, v)
	number, note := x.links.countReceived(peer), x.notes.Take(peer)
	*a = assembly{received: len(payload), total: int(total), elapsed: cost.Elapsed{Marks: w[0] & cost.AllMarks}}
	began := a.elapsed.Begin(x.links.now)
	x.links.linkTo(peer).InBy(perf.Parts, a.total)
	t := x.contexts.table(v.Context)
	r := t.TakePosted(v.Rank, v.Tag)
	switch {
	case r != nil:
		x.rec.Matched(peer, v, number, a.total)
		x.noteMatched(r, note, v.Rank)
		a.elapsed.Began = began
		a.start(r, v, payload)
	case x.contexts.refuses(v.Context, t):
		a.elapsed.Marks = 0
		x.unexpected.noteDropped(v, note)
	default:
		a.m = x.unexpected.store(peer, v, w, payload, a.total)
		a.m.number = number
		x.unexpected.setNote(a.m, note)
		t.AddUnexpected(&a.m.node, v.Rank, v.Tag)
	}
	a.copied(x.links.now, began, len(payload))
	return true
}

// copied must be called after a fragment of n bytes was copied. began is the result of
// Elapsed.Begin. An unexpected message is copied once more, when its receive is posted.
func (a *assembly) copied(now func() time.Duration, began time.Duration, n int) {
	a.elapsed.End(now, began, n)
	if a.m != nil {
		a.elapsed.End(now, began, 0)
	}
}

// start copies the bytes that have arrived to a receive, which completes when all have arrived.
func (a *assembly) start(r *Request, v wire.Envelope, payload []byte) {
	if a.req, a.m = r.handle(), nil; r.size() < a.total {
		a.elapsed.Marks = 0 // not all of it is copied
	}
	r.store(0, payload)
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: min(a.total, r.size())}
}

// handleFrag handles the next fragment of the message that is arriving.
func (x *receives) handleFrag(peer int32, payload []byte) bool {
	a := &x.links.peer(peer).frags
	if len(payload) == 0 || len(payload) > a.total-a.received {
		return false
	}
	at := a.received
	a.received += len(payload)
	began := a.elapsed.Begin(x.links.now)
	if a.m != nil {
		copy(a.m.data[at:], payload)
	} else if r := a.req.r; r != nil && r.gen == a.req.gen && r.state == active {
		// Otherwise the receive has failed meanwhile, and the payload is dropped.
		r.store(at, payload)
		if a.received == a.total {
			var err error
			if a.total != r.size() {
				err = x.lengthError(r, a.total)
			}
			x.requests.complete(r, err)
		}
	} else {
		a.elapsed.Marks = 0
	}
	a.copied(x.links.now, began, len(payload))
	if a.received == a.total {
		x.links.reportElapsed(&a.elapsed, peer, a.total, protocols.Fragmented, 0)
		*a = assembly{}
		x.rec.Configured.Ended()
	}
	return true
}
