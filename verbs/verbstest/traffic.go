package verbstest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// trafficStream is random traffic from one end to another. The memory of either end has a part where messages arrive, one where the
// other end writes, one where its own READs arrive, and one that is only sent and read from.
type trafficStream struct {
	from, to    *endpoint
	rng         *rand.Rand
	expected    map[uint64]memoryCheck // requests by number
	recvIDs     []uint64               // receives in order, not yet matched
	messages    [][]byte               // what they must bring, in order
	recvOffsets map[uint64]int         // of receives
	seq         int
}

type memoryCheck struct {
	got, want []byte // what must be there in the end, or nil
}

const (
	maxMessage  = 4096 // largest message of a flow
	recvArea    = 0
	writeArea   = 8 * maxMessage
	readArea    = 16 * maxMessage
	sendArea    = 24 * maxMessage
	maxInFlight = 8 // requests that a flow has under way
)

func newTrafficStream(from, to *endpoint, seed uint64) *trafficStream {
	return &trafficStream{from: from, to: to, rng: rand.New(rand.NewPCG(seed, 1)), expected: map[uint64]memoryCheck{}, recvOffsets: map[uint64]int{}}
}

// runBatch posts a few random requests, waits for some of those that are under way, and checks what has come.
func (f *trafficStream) runBatch(r *fixture) {
	r.t.Helper()
	for range 1 + f.rng.IntN(maxInFlight) {
		f.post(r)
	}
	f.from.ringDoorbell()
	f.waitAndCheck(r)
}

// post posts one random request, with the receive that it needs.
func (f *trafficStream) post(r *fixture) {
	r.t.Helper()
	a, b := f.from, f.to
	f.seq++
	at, n := maxMessage*(f.seq%maxInFlight), f.rng.IntN(maxMessage)+1
	src := sendArea + f.rng.IntN(maxMessage)
	q := verbs.Request{SGE: sgeList(a.mr, src, n), Imm: f.rng.Uint32()}
	data := bytes.Clone(a.buf[src : src+n])
	if f.rng.IntN(3) > 0 {
		q.Flags = verbs.Signaled
	}
	var end memoryCheck
	all := [...]verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead}
	switch q.Op = all[f.rng.IntN(len(all))]; q.Op {
	case verbs.OpSend, verbs.OpSendImm:
		f.receive(r, recvArea+at, data)
	case verbs.OpWriteImm:
		f.receive(r, recvArea+at, nil)
		fallthrough
	case verbs.OpWrite:
		q.Remote = b.mr.Remote(writeArea + at)
		end = memoryCheck{got: b.buf[writeArea+at:][:n], want: data}
	case verbs.OpRead:
		q.Remote, q.SGE = b.mr.Remote(sendArea+f.rng.IntN(maxMessage)), sgeList(a.mr, readArea+at, n)
		off := int(q.Remote.Addr - b.mr.Remote(0).Addr)
		end = memoryCheck{got: a.buf[readArea+at:][:n], want: bytes.Clone(b.buf[off : off+n])}
	}
	f.expected[a.post(q)] = end
}

func (f *trafficStream) receive(r *fixture, at int, message []byte) {
	r.t.Helper()
	id := f.to.postRecv(f.to.mr.SGE(at, maxMessage))
	f.recvIDs, f.messages, f.recvOffsets[id] = append(f.recvIDs, id), append(f.messages, message), at
}

// waitAndCheck waits for everything, and checks memory. The last request is signaled, so that those before it are known to be done.
func (f *trafficStream) waitAndCheck(r *fixture) {
	r.t.Helper()
	r.awaitSuccess(f.from.postAndRing(verbs.Request{Op: verbs.OpWrite}))
	for i, id := range f.recvIDs {
		wc := r.awaitSuccess(id)
		if m := f.messages[i]; m != nil {
			if int(wc.Len) != len(m) {
				r.t.Fatalf("a message of %d bytes: %+v", len(m), wc)
			}
			checkBytes(r.t, "a message", f.to.buf[f.recvOffsets[id]:][:len(m)], m)
		}
	}
	for id, end := range f.expected {
		if r.tracker.pending[id] != nil {
			r.t.Fatalf("request %#x is still open after one that was posted later", id)
		}
		checkBytes(r.t, "memory", end.got, end.want)
	}
	clear(f.expected)
	clear(f.recvOffsets)
	f.recvIDs, f.messages = nil, nil
}

// newTraffic makes random traffic in both directions of several pairs. All of a side completes into one queue.
func (r *fixture) newTraffic(pairs int) (fs []*trafficStream) {
	r.t.Helper()
	left, right := r.cq(1024, nil), r.cq(1024, nil)
	for i := range pairs {
		a, b := r.newEndpoint(verbs.QPConfig{SendCQ: left}), r.newEndpoint(verbs.QPConfig{SendCQ: right})
		a.connect(b, verbs.DefaultParams())
		b.connect(a, verbs.DefaultParams())
		seed := rand.Uint64()
		r.t.Logf("seed %d", seed)
		fs = append(fs, newTrafficStream(a, b, seed+uint64(i)))
	}
	return fs
}

func checkTraffic(t *testing.T, open Open) {
	r := newFixture(t, open)
	fs := r.newTraffic(3)
	for range 20 {
		for _, f := range fs {
			for range 1 + f.rng.IntN(maxInFlight-1) { // all are under way at the same time
				f.post(r)
			}
			f.from.ringDoorbell()
		}
		for _, f := range fs {
			f.waitAndCheck(r)
			f.from, f.to = f.to, f.from
		}
	}
	r.drain()
}

// When something fails in the middle of traffic, what was posted to that pair completes all the same, each request once,
// and other pairs go on.
func checkTrafficFails(t *testing.T, open Open) {
	r := newFixture(t, open)
	fs := r.newTraffic(4)
	healthy := fs[3]
	for i, f := range fs[:3] {
		f.runBatch(r)
		healthy.runBatch(r)
		for range 3 {
			f.post(r)
		}
		bad := verbs.Request{Op: verbs.OpWrite, SGE: sgeList(f.from.mr, 0, 8), Remote: f.to.mr.Remote(0)}
		switch i {
		case 0:
			bad.Remote.RKey ^= 0xff
		case 1:
			bad.SGE[0].LKey ^= 0xff
		case 2:
			f.to.postRecv(f.to.mr.SGE(0, 8))
			bad.Op, bad.SGE = verbs.OpSend, sgeList(f.from.mr, 0, maxMessage)
		}
		id := f.from.post(bad)
		for range 4 {
			f.post(r)
			f.from.postRecv(f.from.mr.SGE(0, 8))
		}
		f.from.ringDoorbell()
		if wc := r.await(id); wc.Err() == nil || wc.Status == verbs.StatusFlushed {
			t.Fatalf("a request that must fail: %v", wc.Status)
		}
		if err := f.to.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		r.drain()
		r.checkFailed(f.from)
		healthy.runBatch(r)
	}
	r.drain()
}

// A pair may be closed in the middle of traffic. What it has not completed by then never completes, and its number may be another
// pair's.
func checkTrafficCloses(t *testing.T, open Open) {
	r := newFixture(t, open)
	healthy := r.newTraffic(1)[0]
	for i := range 6 {
		f := r.newTraffic(1)[0]
		f.runBatch(r)
		for range 6 {
			f.post(r)
		}
		f.from.ringDoorbell()
		healthy.runBatch(r)
		first, second := f.from, f.to
		if i%2 == 1 {
			first, second = second, first
		}
		first.close()
		healthy.runBatch(r)
		second.close()
		healthy.runBatch(r)
	}
	r.drain()
}

// Any number of goroutines may post to a pair and poll a queue.
func checkThreads(t *testing.T, open Open) {
	r := newFixture(t, open)
	const posters, each = 4, 60
	a, b := r.newEndpoint(verbs.QPConfig{MaxSend: 16}), r.newEndpoint(verbs.QPConfig{MaxRecv: posters * each})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	r.cqs = nil // they are polled below, and have room for all
	for i := range posters * each {
		if err := b.Recv(uint64(i), b.mr.SGE(8*i, 8)); err != nil {
			t.Fatal(err)
		}
	}
	ctx := r.context()
	var mu sync.Mutex
	seen := map[uint64]int{}
	poll := func(cq *verbs.CQ, all func() bool) error {
		wcs := make([]verbs.WC, 8)
		for !all() {
			n, err := cq.Poll(wcs)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			mu.Lock()
			for _, wc := range wcs[:n] {
				seen[wc.ID]++
				err = errors.Join(err, wc.Err())
			}
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 2*posters*each
	}
	errs := make(chan error, posters+4)
	for p := range posters {
		go func() { errs <- a.sendMany(p, each, all) }()
	}
	for range 2 {
		go func() { errs <- poll(a.cq, all) }()
		go func() { errs <- poll(b.cq, all) }()
	}
	for range posters + 4 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("request %#x has completed %d times", id, times)
		}
	}
}

// sendMany posts requests of its own as soon as there is room for them.
func (e *endpoint) sendMany(p, n int, stop func() bool) error {
	for i := 0; i < n && !stop(); {
		err := e.Send(uint64(1<<32|p<<16|i), verbs.Signaled, e.mr.SGE(8*i, 8))
		if err == nil {
			i++
		} else if !errors.Is(err, verbs.ErrFull) {
			return err
		}
		if err := e.Ring(); err != nil {
			return err
		}
	}
	return nil
}
