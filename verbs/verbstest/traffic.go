package verbstest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/verbs"
)

// trafficStream is random traffic from one endpoint to another. The memory of each endpoint has four areas: for received
// messages, for WRITEs of the peer, for data of its own READs, and one that is only sent and read.
type trafficStream struct {
	from, to    *endpoint
	rng         *rand.Rand
	expected    map[uint64]memoryCheck // checks of the posted requests, by request number
	recvIDs     []uint64               // receives in posted order, not yet checked
	messages    [][]byte               // their expected messages; nil for a WRITE with immediate
	recvOffsets map[uint64]int         // of receives, by request number
	seq         int
}

type memoryCheck struct {
	got, want []byte // compared after completion; nil for a SEND
}

const (
	maxMessage  = 4096 // size of the largest message
	recvArea    = 0
	writeArea   = 8 * maxMessage
	readArea    = 16 * maxMessage
	sendArea    = 24 * maxMessage
	maxInFlight = 8 // requests in flight of a stream
)

func newTrafficStream(from, to *endpoint, seed uint64) *trafficStream {
	return &trafficStream{from: from, to: to, rng: rand.New(rand.NewPCG(seed, 1)),
		expected: map[uint64]memoryCheck{}, recvOffsets: map[uint64]int{}}
}

// runBatch posts a few random requests, polls until they have completed, and checks the results.
func (f *trafficStream) runBatch(r *fixture) {
	r.t.Helper()
	for range 1 + f.rng.IntN(maxInFlight) {
		f.post(r)
	}
	f.from.ringDoorbell()
	f.waitAndCheck(r)
}

// post posts one random request, and the receive for it.
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
	var check memoryCheck
	all := [...]verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead}
	switch q.Op = all[f.rng.IntN(len(all))]; q.Op {
	case verbs.OpSend, verbs.OpSendImm:
		f.receive(r, recvArea+at, data)
	case verbs.OpWriteImm:
		f.receive(r, recvArea+at, nil)
		fallthrough
	case verbs.OpWrite:
		q.Remote = b.mr.Remote(writeArea + at)
		check = memoryCheck{got: b.buf[writeArea+at:][:n], want: data}
	case verbs.OpRead:
		q.Remote, q.SGE = b.mr.Remote(sendArea+f.rng.IntN(maxMessage)), sgeList(a.mr, readArea+at, n)
		off := int(q.Remote.Addr - b.mr.Remote(0).Addr)
		check = memoryCheck{got: a.buf[readArea+at:][:n], want: bytes.Clone(b.buf[off : off+n])}
	}
	f.expected[a.post(q)] = check
}

func (f *trafficStream) receive(r *fixture, at int, message []byte) {
	r.t.Helper()
	id := f.to.postRecv(f.to.mr.SGE(at, maxMessage))
	f.recvIDs, f.messages, f.recvOffsets[id] = append(f.recvIDs, id), append(f.messages, message), at
}

// waitAndCheck polls until all requests have completed, and checks memory. It posts a last signaled request: when that completes,
// the unsignaled requests before it have completed too.
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
	for id, check := range f.expected {
		if r.tracker.pending[id] != nil {
			r.t.Fatalf("request %#x is still pending after a later one completed", id)
		}
		checkBytes(r.t, "memory", check.got, check.want)
	}
	clear(f.expected)
	clear(f.recvOffsets)
	f.recvIDs, f.messages = nil, nil
}

// newTraffic returns streams between new pairs of endpoints. All endpoints of one side share a completion queue.
func (r *fixture) newTraffic(pairs int) (fs []*trafficStream) {
	r.t.Helper()
	left, right := r.cq(1024, nil), r.cq(1024, nil)
	seed := soaktest.Seed(r.t)
	for i := range pairs {
		a, b := r.newEndpoint(verbs.QPConfig{SendCQ: left}), r.newEndpoint(verbs.QPConfig{SendCQ: right})
		a.connect(b, verbs.DefaultParams())
		b.connect(a, verbs.DefaultParams())
		fs = append(fs, newTrafficStream(a, b, seed+uint64(i)))
	}
	return fs
}

func checkTraffic(t *testing.T, open Open) {
	r := newFixture(t, open)
	fs := r.newTraffic(3)
	for range 20 {
		for _, f := range fs {
			for range 1 + f.rng.IntN(maxInFlight-1) { // all streams have requests in flight at the same time
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

// Posts to serialized pairs in both directions, one after the other by different goroutines.
func checkSerialized(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{Serialized: true})
	fs := []*trafficStream{newTrafficStream(a, b, 1), newTrafficStream(b, a, 2)}
	for range 10 {
		for _, f := range fs {
			var posts sync.WaitGroup
			posts.Go(func() { f.runBatch(r) })
			posts.Wait()
		}
	}
	for _, e := range []*endpoint{a, b} {
		if err := e.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		e.checkPostError(7, e.Send(7, 0, e.mr.SGE(0, 8)), verbs.ErrState, "a send of a pair in RESET")
		e.checkPostError(8, e.Recv(8, e.mr.SGE(0, 8)), verbs.ErrState, "a receive of a pair in RESET")
		e.close()
		e.checkPostError(9, e.Send(9, 0, e.mr.SGE(0, 8)), verbs.ErrClosed, "a send of a closed pair")
		e.checkPostError(10, e.Recv(10, e.mr.SGE(0, 8)), verbs.ErrClosed, "a receive of a closed pair")
	}
}

// If a request fails during traffic, all requests of that queue pair still complete, each once. Other queue pairs are not
// affected.
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
			t.Fatalf("a request that must fail completed with %v", wc.Status)
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

// A queue pair may be closed during traffic. Its pending requests never complete, and another queue pair may get its number.
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

// Several goroutines may post to one queue pair and poll one completion queue concurrently.
func checkThreads(t *testing.T, open Open) {
	r := newFixture(t, open)
	r.threads = true
	const posters, each = 4, 60
	a, b := r.newEndpoint(verbs.QPConfig{MaxSend: 16}), r.newEndpoint(verbs.QPConfig{MaxRecv: posters * each})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	r.cqs = nil // they are polled below, and have room for all completions
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
			t.Errorf("request %#x completed %d times", id, times)
		}
	}
}

// sendMany posts n SENDs, whose numbers contain p. It retries while the queue is full.
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
