package verbstest

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// sgeList returns a scatter/gather list of n bytes of a region. Some devices take an entry of length 0 for 2 GiB, so the list
// is empty if n is 0.
func sgeList(mr *verbs.MR, off, n int) []verbs.SGE {
	if n == 0 {
		return nil
	}
	return []verbs.SGE{mr.SGE(off, n)}
}

// messageLengths returns lengths around the limits at which messages are split into packets.
func (r *fixture) messageLengths() []int {
	mtu := r.port.ActiveMTU.Bytes()
	return []int{0, 1, 3, 4, 8, 63, 64, 65, mtu - 1, mtu, mtu + 1, 2 * mtu, 3*mtu + 5, 1 << 15}
}

func checkSendLengths(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i, n := range r.messageLengths() {
		for _, ends := range [][2]*endpoint{{a, b}, {b, a}} {
			from, to := ends[0], ends[1]
			want, off := bytes.Clone(to.buf), 8*i+3
			copy(want[off:], from.buf[i:i+n])
			into := to.postRecv(to.mr.SGE(off, n+5))
			wc := r.awaitSuccess(from.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(from.mr, i, n)}), into)
			if int(wc.Len) != n || wc.Flags&(verbs.WithImm|verbs.WithInvalidate) != 0 {
				t.Fatalf("%d bytes were sent: %+v", n, wc)
			}
			checkBytes(t, "a SEND", to.buf, want)
		}
	}
	r.drain()
}

func checkSendImmediate(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i, imm := range []uint32{0, 1, 0x01020304, 0xfffffffe} {
		want := bytes.Clone(b.buf)
		copy(want[i:], a.buf[:100*i])
		into := b.postRecv(b.mr.SGE(i, 1000))
		wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSendImm, Imm: imm, SGE: sgeList(a.mr, 0, 100*i)}), into)
		if wc.Imm() != imm || wc.Flags&verbs.WithImm == 0 || int(wc.Len) != 100*i {
			t.Fatalf("%#x was sent, but %#x arrived: %+v", imm, wc.Imm(), wc)
		}
		checkBytes(t, "a SEND with immediate", b.buf, want)
	}
	into := b.postRecv()
	id := r.tracker.nextID()
	a.expectCompletion(id, verbs.OpSendImm, verbs.Signaled, a.SendImm(id, verbs.Signaled, 77))
	a.ringDoorbell()
	if wc := r.awaitSuccess(id, into); wc.Imm() != 77 {
		t.Fatalf("77 was sent: %+v", wc)
	}
	r.drain()
}

// The caller may reuse the inline bytes when the post returns.
func checkSendInline(t *testing.T, open Open) {
	r := newFixture(t, open)
	want := r.inlineBytes(verbs.RC, 64)
	a, b := r.pair(verbs.QPConfig{MaxInline: want})
	most := a.Cap().MaxInline
	if most < want {
		t.Fatalf("a queue pair made for %d inline bytes takes %d", want, most)
	}
	for i, n := range []int{0, 1, 15, 16, 17, 63, 64, most} {
		if n > most {
			continue
		}
		want, data := bytes.Clone(b.buf), fillPattern(make([]byte, n), uint64(i))
		copy(want, data)
		copy(want[1<<16:], data)
		into := b.postRecv(b.mr.SGE(0, most))
		send, write := r.tracker.nextID(), r.tracker.nextID()
		a.expectCompletion(send, verbs.OpSend, verbs.Signaled, a.SendInline(send, verbs.Signaled, data))
		clear(data)
		copy(data, want)
		a.expectCompletion(write, verbs.OpWrite, verbs.Signaled, a.WriteInline(write, verbs.Signaled, b.mr.Remote(1<<16), data))
		clear(data)
		a.ringDoorbell()
		r.awaitSuccess(send, write)
		if wc := r.awaitSuccess(into); int(wc.Len) != n {
			t.Fatalf("%d bytes were sent: %+v", n, wc)
		}
		checkBytes(t, "inline", b.buf, want)
	}
	a.checkPostError(9, a.SendInline(9, 0, make([]byte, most+1)), verbs.ErrInvalid, "too much inline")
	r.drain()
}

// splitSGEs returns scatter/gather entries of these sizes with gaps between them, and their offsets in the region.
func splitSGEs(mr *verbs.MR, off int, sizes []int) (sges []verbs.SGE, at []int) {
	for _, n := range sizes {
		sges, at = append(sges, mr.SGE(off, n)), append(at, off)
		off += n + 7
	}
	return sges, at
}

func gather(buf []byte, at, sizes []int) (all []byte) {
	for i, off := range at {
		all = append(all, buf[off:off+sizes[i]]...)
	}
	return all
}

func scatter(buf []byte, at, sizes []int, data []byte) {
	for i, off := range at {
		data = data[copy(buf[off:off+sizes[i]], data):]
	}
}

func checkScatterGather(t *testing.T, open Open) {
	r := newFixture(t, open)
	n := int(min(r.caps.MaxSGE, r.caps.MaxSGERd, 4))
	if n < 2 {
		n = int(min(r.caps.MaxSGE, 4))
	}
	a, b := r.pair(verbs.QPConfig{MaxSendSGE: n, MaxRecvSGE: n})
	out, in := []int{1500, 1, 64, 4097}[:n], []int{3, 4096, 1500, 63}[:n]
	total := 0
	for _, size := range out {
		total += size
	}
	in[n-1] += total
	from, at := splitSGEs(a.mr, 5, out)
	into, places := splitSGEs(b.mr, 9, in)

	want := bytes.Clone(b.buf)
	data := gather(a.buf, at, out)
	scatter(want, places, in, data)
	got := b.postRecv(into...)
	if wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: from}), got); int(wc.Len) != total {
		t.Fatalf("%d bytes were sent: %+v", total, wc)
	}
	checkBytes(t, "a SEND of a list", b.buf, want)

	copy(want[1<<16:], data)
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: from, Remote: b.mr.Remote(1 << 16)}))
	checkBytes(t, "a WRITE of a list", b.buf, want)

	if limit := int(r.caps.MaxSGERd); limit > 0 && limit < n { // some devices do not report it
		r.drain()
		return
	}
	want = bytes.Clone(a.buf)
	scatter(want, at, out, b.buf[1<<15:][:total])
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: from, Remote: b.mr.Remote(1 << 15)}))
	checkBytes(t, "a READ into a list", a.buf, want)
	r.drain()
}

// Requests that succeed complete only if they are signaled.
func checkUnsignaled(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	for i := range 30 {
		for j := range 3 {
			a.post(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, i, 8), Remote: b.mr.Remote(64*i + 8*j)})
		}
		r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, i, 8), Remote: b.mr.Remote(64*i + 24)}))
		for j := range 4 {
			checkBytes(t, "a WRITE", b.buf[64*i+8*j:][:8], a.buf[i:i+8])
		}
	}
	r.drain()

	c, d := r.pair(verbs.QPConfig{SignalAll: true})
	var ids []uint64
	for i := range 5 {
		ids = append(ids, c.post(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(c.mr, 0, 8), Remote: d.mr.Remote(8 * i)}))
	}
	c.ringDoorbell()
	r.awaitSuccess(ids...)
	r.drain()
}

// Many requests are submitted with one doorbell, and complete in order.
func checkBatch(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{MaxSend: 32, MaxRecv: 32})
	for round := range 5 { // so that the queue wraps
		want := bytes.Clone(b.buf)
		var ids []uint64
		for i := range 32 {
			n := 100*i + 1
			copy(want[4000*i:], a.buf[round+i:][:n])
			ids = append(ids, b.postRecv(b.mr.SGE(4000*i, n)))
			ids = append(ids, a.post(verbs.Request{Op: verbs.OpSend, Flags: verbs.Signaled, SGE: sgeList(a.mr, round+i, n)}))
		}
		a.ringDoorbell()
		r.awaitSuccess(ids...)
		checkBytes(t, "a batch of SENDs", b.buf, want)
	}
	if err := a.Ring(); err != nil {
		t.Fatalf("ring without requests: %v", err)
	}
	r.drain()
}

// A queue takes at least the requested number of requests, refuses more, and takes as many again after they complete.
func checkQueueFull(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{MaxSend: 10, MaxRecv: 10})
	if c := a.Cap(); c.MaxSend < 10 || c.MaxRecv < 10 {
		t.Fatalf("queues for 10 requests hold %+v", c)
	}
	for range 3 {
		recvs := r.fillQueue(b, b.Cap().MaxRecv, func(id uint64) error { return b.Recv(id, b.mr.SGE(0, 8)) },
			func(id uint64) {
				r.tracker.add(pendingRequest{id: id, queue: queueID{b.Num(), true}, op: verbs.WCRecv})
			})
		sends := r.fillQueue(a, a.Cap().MaxSend, func(id uint64) error { return a.Send(id, verbs.Signaled, a.mr.SGE(0, 8)) },
			func(id uint64) { a.expectCompletion(id, verbs.OpSend, verbs.Signaled, nil) })
		a.ringDoorbell()
		r.pollUntil("room", func() bool { return r.tracker.isCompleted(sends[0]) })
		for len(sends) > len(recvs) {
			recvs = append(recvs, b.postRecv(b.mr.SGE(0, 8)))
		}
		r.awaitSuccess(sends...)
		for len(recvs) > len(sends) {
			sends = append(sends, a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}))
		}
		r.drain()
	}
}

// fillQueue posts until the queue is full, and returns the numbers of the posted requests.
func (r *fixture) fillQueue(e *endpoint, least int, post func(uint64) error, taken func(uint64)) (ids []uint64) {
	r.t.Helper()
	for {
		id := r.tracker.nextID()
		err := post(id)
		if err != nil {
			if !errors.Is(err, verbs.ErrFull) || len(ids) < least {
				r.t.Fatalf("after %d of at least %d requests: %v", len(ids), least, err)
			}
			e.checkPostError(id, err, verbs.ErrFull, "one more")
			return ids
		}
		taken(id)
		if ids = append(ids, id); len(ids) > 4*least+64 {
			r.t.Fatalf("a queue of %d took %d requests", least, len(ids))
		}
	}
}

// Posting an invalid request returns the error immediately, and posts nothing.
func checkPostMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	c := a.Cap()
	bad := map[string]verbs.Request{
		"a list too long":     {Op: verbs.OpSend, SGE: slices.Repeat(sgeList(a.mr, 0, 1), c.MaxSendSGE+1)},
		"too much inline":     {Op: verbs.OpSend, Inline: make([]byte, c.MaxInline+1)},
		"no operation":        {Op: 99},
		"a bind":              {Op: verbs.OpBindMW},
		"unaligned":           {Op: verbs.OpFetchAdd, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(4)},
		"four bytes":          {Op: verbs.OpCompareSwap, SGE: sgeList(a.mr, 0, 4), Remote: b.mr.Remote(8)},
		"no bytes":            {Op: verbs.OpFetchAdd, Remote: b.mr.Remote(8)},
		"longer than allowed": {Op: verbs.OpWrite, SGE: []verbs.SGE{{Addr: 0, Len: r.port.MaxMsgSize + 1, LKey: a.mr.LKey()}}},
	}
	for what, q := range bad {
		q.ID = r.tracker.nextID()
		a.checkPostError(q.ID, a.Post(&q), verbs.ErrInvalid, what)
	}
	id := r.tracker.nextID()
	b.checkPostError(id, b.Recv(id, slices.Repeat(sgeList(b.mr, 0, 1), c.MaxRecvSGE+1)...), verbs.ErrInvalid, "a list too long")
	for _, mr := range []*verbs.MR{a.mr, b.mr} {
		for _, piece := range [][2]int{{-1, 1}, {0, bufferSize + 1}, {bufferSize, 1}, {1, -1}} {
			if !panics(func() { mr.SGE(piece[0], piece[1]) }) {
				t.Fatalf("SGE of %d bytes at offset %d of %d did not panic", piece[1], piece[0], bufferSize)
			}
		}
	}
	into := b.postRecv(b.mr.SGE(0, 8))
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}), into)
	r.drain()
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
