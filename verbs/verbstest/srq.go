package verbstest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

func checkShared(t *testing.T, open Open) {
	r := newFixture(t, open)
	if !r.hasSRQ() {
		return
	}
	srq := must(r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 32, MaxRecvSGE: 2}))(t)
	cq := r.cq(256, nil)
	var from, to []*endpoint
	for range 3 {
		a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SendCQ: cq, SRQ: srq})
		a.connect(b, verbs.DefaultParams())
		b.connect(a, verbs.DefaultParams())
		from, to = append(from, a), append(to, b)
	}
	buf, mr := r.region(bufferSize, 1)
	for range 4 {
		offsets := map[uint64]int{}
		for i := range 30 {
			offsets[r.postSharedRecv(srq, r.tracker.nextID(), mr.SGE(4096*i, 100), mr.SGE(4096*i+2048, 2000))] = 4096 * i
		}
		for i := range 30 {
			n := 50 * i
			r.awaitSuccess(from[i%3].postAndRing(verbs.Request{Op: verbs.OpSendImm, Imm: uint32(i), SGE: sgeList(from[i%3].mr, i, n)}))
		}
		r.pollUntil("receives", func() bool {
			return !slices.ContainsFunc(keys(offsets), func(id uint64) bool { return !r.tracker.isCompleted(id) })
		})
		for id, off := range offsets {
			wc := r.awaitSuccess(id)
			i := int(wc.Imm())
			a, b, n := from[i%3], to[i%3], 50*i
			if wc.QPN != b.Num() || int(wc.Len) != n {
				t.Fatalf("message %d of %d bytes to queue pair %#x: %+v", i, n, b.Num(), wc)
			}
			checkBytes(t, "the first piece", buf[off:off+min(n, 100)], a.buf[i:i+min(n, 100)])
			checkBytes(t, "the second piece", buf[off+2048:][:max(n-100, 0)], a.buf[i+min(n, 100):i+n])
		}
	}
	r.drain()
}

func keys[K comparable, V any](m map[K]V) (ks []K) {
	for k := range m {
		ks = append(ks, k)
	}
	return ks
}

// awaitEvent blocks until an asynchronous event of a type arrives. It ignores events of other types.
func (r *fixture) awaitEvent(of verbs.EventType) verbs.Event {
	r.t.Helper()
	ctx := r.context()
	for {
		ev, err := r.ctx.NextEvent(ctx)
		if err != nil {
			r.t.Fatalf("wait for %v: %v", of, err)
		}
		if ev.Type == of {
			return ev
		}
	}
}

func checkSharedLimit(t *testing.T, open Open) {
	r := newFixture(t, open)
	if !r.hasSRQ() {
		return
	}
	srq := must(r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 16}))(t)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SRQ: srq})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	for range 2 {
		var ids []uint64
		for range 6 {
			ids = append(ids, b.postRecv(b.mr.SGE(0, 8)))
		}
		if err := srq.SetLimit(4); err != nil {
			t.Fatal(err)
		}
		if wr, sge, limit, err := srq.Query(); err != nil || wr < 16 || sge < 1 || limit != 4 {
			t.Fatalf("16 receives, limit 4: %d receives of %d, limit %d: %v", wr, sge, limit, err)
		}
		for i := range ids {
			r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}), ids[i])
		}
		if ev := r.awaitEvent(verbs.EventSRQLimit); ev.SRQ != srq {
			t.Fatalf("the event is %v", ev)
		}
		if _, _, limit, err := srq.Query(); err != nil || limit != 0 {
			t.Fatalf("the limit after its event is %d: %v", limit, err)
		}
	}
	r.drain()
}

func checkSharedMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	if !r.hasSRQ() {
		return
	}
	for _, cfg := range []verbs.SRQConfig{{}, {MaxRecv: -1}, {MaxRecv: 4, MaxRecvSGE: -1}, {MaxRecv: 4, Limit: 5},
		{MaxRecv: int(r.caps.MaxSRQWR) + 1}, {MaxRecv: 4, MaxRecvSGE: int(r.caps.MaxSRQSGE) + 1}} {
		_, err := r.pd.CreateSRQ(cfg)
		r.checkError(err, verbs.ErrInvalid, "an invalid shared receive queue")
	}
	srq := must(r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 10}))(t)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SRQ: srq})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	b.checkPostError(5, b.Recv(5, b.mr.SGE(0, 8)), verbs.ErrInvalid, "a receive of a queue pair with a shared receive queue")
	wr, sge := srq.Cap()
	if e := r.checkError(srq.Recv(6, slices.Repeat(sgeList(b.mr, 0, 1), sge+1)...), verbs.ErrInvalid, "a list too long"); e.ID != 6 {
		t.Fatalf("%v does not name request 6", e)
	}
	posted := 0
	for ; posted <= 4*wr+64; posted++ {
		id := r.tracker.nextID()
		if err := srq.Recv(id, b.mr.SGE(0, 8)); err != nil {
			if e := r.checkError(err, verbs.ErrFull, "one more receive"); e.ID != id || !e.Post || posted < wr {
				t.Fatalf("after %d of %d receives: %v", posted, wr, err)
			}
			break
		}
		r.tracker.add(pendingRequest{id: id, op: verbs.WCRecv, shared: true})
	}
	switch err := srq.Resize(4 * wr); {
	case errors.Is(err, verbs.ErrNotSupported):
	case err != nil:
		t.Fatal(err)
	default:
		for range wr { // the queue has room now, and keeps the posted receives
			b.postRecv(b.mr.SGE(0, 8))
			posted++
		}
	}
	for range posted {
		r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}))
	}
	r.drain()
	r.checkError(srq.Close(), verbs.ErrBusy, "close a shared receive queue in use")
	b.close()
	if err := srq.Close(); err != nil {
		t.Fatal(err)
	}
	if e := r.checkError(srq.Recv(7, b.mr.SGE(0, 8)), verbs.ErrClosed, "a receive after Close"); e.ID != 7 {
		t.Fatalf("%v does not name request 7", e)
	}
	r.checkError(srq.SetLimit(1), verbs.ErrClosed, "a limit after Close")
	r.checkError(srq.Resize(1), verbs.ErrClosed, "a size after Close")
}
