package verbstest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

func checkWrite(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i, n := range r.messageLengths() {
		want, off := bytes.Clone(b.buf), 16*i+1
		copy(want[off:], a.buf[i:i+n])
		r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, i, n), Remote: b.mr.Remote(off)}))
		checkBytes(t, "a WRITE", b.buf, want)
	}
	r.drain()
}

// A WRITE with immediate consumes a receive, and does not change the memory of that receive.
func checkWriteImmediate(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i, n := range r.messageLengths() {
		want := bytes.Clone(b.buf)
		copy(want[100:], a.buf[i:i+n])
		into := b.postRecv(b.mr.SGE(1<<16, 64))
		imm := 0xa0b0c000 + uint32(i)
		wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWriteImm, Imm: imm, SGE: sgeList(a.mr, i, n),
			Remote: b.mr.Remote(100)}), into)
		if wc.Opcode != verbs.WCRecvWriteImm || wc.Imm() != imm || wc.Flags&verbs.WithImm == 0 || int(wc.Len) != n {
			t.Fatalf("%d bytes were written with immediate %#x, but %#x arrived: %+v", n, imm, wc.Imm(), wc)
		}
		checkBytes(t, "a WRITE with immediate", b.buf, want)
	}
	r.drain()
}

func checkRead(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i, n := range r.messageLengths() {
		want, off := bytes.Clone(a.buf), 16*i+1
		copy(want[off:], b.buf[i:i+n])
		wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: sgeList(a.mr, off, n), Remote: b.mr.Remote(i)}))
		if int(wc.Len) != n {
			t.Fatalf("%d bytes were read: %+v", n, wc)
		}
		checkBytes(t, "a READ", a.buf, want)
	}
	// More concurrent READs than either side can have in flight.
	var ids []uint64
	want := bytes.Clone(a.buf)
	for i := range 60 {
		copy(want[2000*i:], b.buf[1000*i:][:2000])
		ids = append(ids, a.post(verbs.Request{Op: verbs.OpRead, Flags: verbs.Signaled, SGE: sgeList(a.mr, 2000*i, 2000),
			Remote: b.mr.Remote(1000 * i)}))
	}
	a.ringDoorbell()
	r.awaitSuccess(ids...)
	checkBytes(t, "many READs", a.buf, want)
	r.drain()
}

// loadUint64 reads an eight-byte integer in native byte order.
func loadUint64(buf []byte, off int) uint64 { return binary.NativeEndian.Uint64(buf[off:]) }

func storeUint64(buf []byte, off int, v uint64) { binary.NativeEndian.PutUint64(buf[off:], v) }

func checkCompareSwap(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	if r.checkNoAtomics(a, b) {
		return
	}
	const first, second, at = 0x0102030405060708, 0x1112131415161718, 64
	storeUint64(b.buf, at, first)
	want, mine := bytes.Clone(b.buf), bytes.Clone(a.buf)
	storeUint64(want, at, second)
	swap := func(compare, to, was uint64) {
		t.Helper()
		wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpCompareSwap, Compare: compare, Swap: to, SGE: sgeList(a.mr, 24, 8),
			Remote: b.mr.Remote(at)}))
		storeUint64(mine, 24, was)
		if wc.Len != 8 {
			t.Fatalf("the length of a compare and swap is not 8: %+v", wc)
		}
		checkBytes(t, "the value before a compare and swap", a.buf, mine)
	}
	swap(first, second, first)
	checkBytes(t, "a swap", b.buf, want)
	swap(first, 99, second) // not equal: the memory does not change
	checkBytes(t, "no swap", b.buf, want)

	id := r.tracker.nextID()
	a.expectCompletion(id, verbs.OpCompareSwap, verbs.Signaled,
		a.CompareSwap(id, verbs.Signaled, b.mr.Remote(at), second, 5, a.mr.SGE(0, 8)))
	a.ringDoorbell()
	r.awaitSuccess(id)
	storeUint64(want, at, 5)
	checkBytes(t, "another swap", b.buf, want)
	r.drain()
}

// checkNoAtomics reports whether the device has no atomic operations. If it has none, it checks that they fail.
func (r *fixture) checkNoAtomics(a, b *endpoint) bool {
	r.t.Helper()
	if r.caps.AtomicCap != 0 {
		return false
	}
	q := verbs.Request{ID: r.tracker.nextID(), Op: verbs.OpFetchAdd, Flags: verbs.Signaled | verbs.RingDoorbell, Compare: 1,
		SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)}
	if err := a.Post(&q); err != nil { // the driver refuses it
		r.checkError(err, verbs.ErrInvalid, "an atomic operation that the device does not have")
		return true
	}
	a.expectCompletion(q.ID, q.Op, q.Flags, nil)
	if wc := r.await(q.ID); wc.Err() == nil {
		r.t.Fatal("a device without atomic operations executed one")
	}
	return true
}

// Concurrent additions of several queue pairs to one integer are all applied, and each returns a different old value.
func checkFetchAdd(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	if r.checkNoAtomics(a, b) {
		return
	}
	c, _ := r.pair(verbs.QPConfig{})
	const rounds, first = 40, ^uint64(100) // so that it wraps around
	storeUint64(b.buf, 8, first)
	var ids, seen []uint64
	for i := range rounds {
		for _, e := range []*endpoint{a, c} {
			id := r.tracker.nextID()
			e.expectCompletion(id, verbs.OpFetchAdd, verbs.Signaled, e.FetchAdd(id, verbs.Signaled, b.mr.Remote(8), 3, e.mr.SGE(8*i, 8)))
			ids = append(ids, id)
		}
	}
	a.ringDoorbell()
	c.ringDoorbell()
	r.awaitSuccess(ids...)
	for i := range rounds {
		seen = append(seen, loadUint64(a.buf, 8*i)-first, loadUint64(c.buf, 8*i)-first)
	}
	slices.Sort(seen)
	for i, v := range seen {
		if v != 3*uint64(i) {
			t.Fatalf("addition %d returned the first value plus %d instead of plus %d", i, v, 3*i)
		}
	}
	if got := loadUint64(b.buf, 8) - first; got != 3*2*rounds {
		t.Fatalf("the sum grew by %d instead of %d", got, 3*2*rounds)
	}
	r.drain()
}

// A fenced request starts after earlier READs, and sends the bytes that they read.
func checkFence(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i := range 20 {
		const n = 5000
		into := b.postRecv(b.mr.SGE(1<<16, n))
		read := a.post(verbs.Request{Op: verbs.OpRead, Flags: verbs.Signaled, SGE: sgeList(a.mr, 0, n), Remote: b.mr.Remote(i)})
		a.ringDoorbell()
		r.awaitSuccess(read, a.postAndRing(verbs.Request{Op: verbs.OpSend, Flags: verbs.Fence, SGE: sgeList(a.mr, 0, n)}), into)
		checkBytes(t, "the bytes that were read and sent back", b.buf[1<<16:][:n], b.buf[i:i+n])
	}
	r.drain()
}
