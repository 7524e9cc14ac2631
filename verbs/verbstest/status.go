package verbstest

import (
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// allowedStatuses returns the status of the standard, and for rxe also the statuses that rxe reports instead.
func (r *fixture) allowedStatuses(standard verbs.Status, soft ...verbs.Status) []verbs.Status {
	if r.isRXE {
		return append(soft, standard)
	}
	return []verbs.Status{standard}
}

// localFaultStatuses returns the statuses of a request with invalid local memory.
func (r *fixture) localFaultStatuses() []verbs.Status {
	return r.allowedStatuses(verbs.StatusLocalProtection, verbs.StatusLocalQPOperation)
}

// checkFailed checks that a queue pair has failed, and that requests posted to it are flushed. It posts before it queries the
// state: package verbs must know the state from the failed completions.
func (r *fixture) checkFailed(e *endpoint) {
	r.t.Helper()
	into := e.postRecv(e.mr.SGE(0, 8))
	r.awaitFailure(e, into, verbs.StatusFlushed)
	r.awaitFailure(e, e.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(e.mr, 0, 8)}), verbs.StatusFlushed)
	r.awaitState(e, verbs.StateErr)
}

// A message that is longer than its receive fails on both sides.
func checkStatusLength(t *testing.T, open Open) {
	r := newFixture(t, open)
	for _, n := range []int{101, 3 * r.port.ActiveMTU.Bytes()} {
		a, b := r.pair(verbs.QPConfig{})
		into, next := b.postRecv(b.mr.SGE(0, 100)), b.postRecv(b.mr.SGE(0, 100))
		id := a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, n)})
		r.awaitFailure(a, id, r.allowedStatuses(verbs.StatusRemoteInvalid, verbs.StatusRemoteOperation)...)
		r.awaitFailure(b, into, r.allowedStatuses(verbs.StatusLocalLength, verbs.StatusRemoteInvalid, verbs.StatusLocalQPOperation)...)
		r.awaitFailure(b, next, verbs.StatusFlushed)
		r.checkFailed(a)
		r.drain()
	}
}

// Requests with invalid local memory fail, and the error names the request. A failed request completes even if it is unsignaled.
func checkStatusLocal(t *testing.T, open Open) {
	r := newFixture(t, open)
	_, mr := r.region(4096, 1)
	closed := mr.SGE(0, 64)
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	_, readOnly := r.regionWith(4096, 1, 0)
	foreign := must(must(r.ctx.AllocPD())(t).Register(make([]byte, 4096), verbs.LocalWrite))(t)
	for _, c := range []struct {
		what string
		op   verbs.Opcode
		sge  func(a *endpoint) verbs.SGE
	}{
		{"a wrong key", verbs.OpSend, func(a *endpoint) verbs.SGE { s := a.mr.SGE(0, 64); s.LKey ^= 0xff; return s }},
		{"a wrong key", verbs.OpRead, func(a *endpoint) verbs.SGE { s := a.mr.SGE(0, 64); s.LKey ^= 0xff; return s }},
		{"after the region", verbs.OpWrite, func(a *endpoint) verbs.SGE { s := a.mr.SGE(bufferSize-60, 60); s.Len = 64; return s }},
		{"before the region", verbs.OpRead, func(a *endpoint) verbs.SGE { s := a.mr.SGE(0, 64); s.Addr--; return s }},
		{"a closed region", verbs.OpSend, func(*endpoint) verbs.SGE { return closed }},
		{"a region of another protection domain", verbs.OpWrite, func(*endpoint) verbs.SGE { return foreign.SGE(0, 64) }},
		{"read-only memory", verbs.OpRead, func(*endpoint) verbs.SGE { return readOnly.SGE(0, 64) }},
	} {
		a, b := r.pair(verbs.QPConfig{})
		b.postRecv(b.mr.SGE(0, 64))
		first := a.post(verbs.Request{Op: verbs.OpWrite, Flags: verbs.Signaled, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)})
		bad := a.post(verbs.Request{Op: c.op, SGE: []verbs.SGE{c.sge(a)}, Remote: b.mr.Remote(0)})
		after := a.post(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)})
		a.ringDoorbell()
		r.awaitSuccess(first)
		r.awaitFailure(a, bad, r.localFaultStatuses()...)
		r.awaitFailure(a, after, verbs.StatusFlushed)
		r.checkFailed(a)
		b.close()
		r.drain()
	}
}

func checkStatusRemoteAccess(t *testing.T, open Open) {
	r := newFixture(t, open)
	_, mr := r.region(4096, 1)
	closed := mr.Remote(0)
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	const plain = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	only := func(a verbs.Access) verbs.Remote { _, mr := r.regionWith(4096, 1, a); return mr.Remote(0) }
	foreign := must(must(r.ctx.AllocPD())(t).Register(make([]byte, 4096), plain))(t)
	for _, c := range []struct {
		what string
		op   verbs.Opcode
		at   func(b *endpoint) verbs.Remote
		qp   verbs.Access
	}{
		{"a wrong key", verbs.OpWrite, func(b *endpoint) verbs.Remote { x := b.mr.Remote(0); x.RKey ^= 0xff; return x }, 0},
		{"a wrong key", verbs.OpRead, func(b *endpoint) verbs.Remote { x := b.mr.Remote(0); x.RKey ^= 0xff00; return x }, 0},
		{"after the region", verbs.OpWrite, func(b *endpoint) verbs.Remote { return b.mr.Remote(bufferSize - 60) }, 0},
		{"before the region", verbs.OpRead, func(b *endpoint) verbs.Remote { x := b.mr.Remote(0); x.Addr--; return x }, 0},
		{"unmapped", verbs.OpWrite, func(b *endpoint) verbs.Remote { return verbs.Remote{RKey: b.mr.RKey(), Addr: 1<<64 - 8} }, 0},
		{"a closed region", verbs.OpWrite, func(*endpoint) verbs.Remote { return closed }, 0},
		{"a region of another protection domain", verbs.OpRead, func(*endpoint) verbs.Remote { return foreign.Remote(0) }, 0},
		{"no remote access", verbs.OpRead, func(*endpoint) verbs.Remote { return only(verbs.LocalWrite) }, 0},
		{"reads only", verbs.OpWrite, func(*endpoint) verbs.Remote { return only(verbs.LocalWrite | verbs.RemoteRead) }, 0},
		{"writes only", verbs.OpRead, func(*endpoint) verbs.Remote { return only(verbs.LocalWrite | verbs.RemoteWrite) }, 0},
		{"no atomics", verbs.OpFetchAdd, func(*endpoint) verbs.Remote { return only(plain) }, 0},
		{"a queue pair without writes", verbs.OpWrite, func(b *endpoint) verbs.Remote { return b.mr.Remote(0) }, verbs.RemoteRead},
		{"a queue pair without reads", verbs.OpRead, func(b *endpoint) verbs.Remote { return b.mr.Remote(0) }, verbs.RemoteWrite},
		{"a queue pair without atomics", verbs.OpFetchAdd, func(b *endpoint) verbs.Remote { return b.mr.Remote(0) }, verbs.RemoteWrite},
	} {
		if c.op == verbs.OpFetchAdd && r.caps.AtomicCap == 0 {
			continue
		}
		a, b := r.pair(verbs.QPConfig{Access: c.qp})
		want := b.postRecv(b.mr.SGE(0, 64))
		n := 64
		if c.op == verbs.OpFetchAdd {
			n = 8
		}
		bad := a.postAndRing(verbs.Request{Op: c.op, SGE: sgeList(a.mr, 0, n), Remote: c.at(b)})
		if c.qp == 0 {
			r.awaitFailure(a, bad, verbs.StatusRemoteAccess)
		} else { // a queue pair without the access right may report an invalid request
			r.awaitFailure(a, bad, verbs.StatusRemoteAccess, verbs.StatusRemoteInvalid)
		}
		r.checkFailed(a)
		r.awaitState(b, verbs.StateErr)
		r.awaitFailure(b, want, verbs.StatusFlushed)
		r.drain()
	}
}

// A receive with invalid memory is an error of the receiver. The sender gets a remote operation error.
func checkStatusRemoteOperation(t *testing.T, open Open) {
	r := newFixture(t, open)
	for _, n := range []int{8, 3 * r.port.ActiveMTU.Bytes()} {
		a, b := r.pair(verbs.QPConfig{})
		sge := b.mr.SGE(0, 1<<15)
		sge.LKey ^= 0xff
		into := b.postRecv(sge)
		r.awaitFailure(a, a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, n)}), verbs.StatusRemoteOperation)
		r.awaitFailure(b, into, r.localFaultStatuses()...)
		r.checkFailed(a)
		r.drain()
	}
}

// Requests to a closed peer fail after the retries, also with default parameters, and all later requests are flushed.
func checkStatusRetry(t *testing.T, open Open) {
	r := newFixture(t, open)
	for _, p := range []verbs.Params{fastFailParams(), verbs.DefaultParams()} {
		a, b := r.pairWith(verbs.QPConfig{}, p)
		r.exchange(a, b)
		b.close()
		first := a.post(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)})
		second := a.post(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 8), Remote: verbs.Remote{Addr: 8, RKey: 8}})
		a.ringDoorbell()
		r.awaitFailure(a, first, verbs.StatusRetryExceeded)
		r.awaitFailure(a, second, verbs.StatusFlushed)
		r.checkFailed(a)
		r.drain()
	}
}

// A sender retries RNR_RETRY times while the receiver has no receive posted; DefaultParams retries without limit.
func checkStatusRNR(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{}) // retries without limit
	id := a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 8, 8)})
	for range 100 {
		r.poll()
	}
	if r.tracker.isCompleted(id) {
		t.Fatalf("a SEND without a receive completed: %v", r.tracker.completed[id].Status)
	}
	r.awaitSuccess(b.postRecv(b.mr.SGE(0, 8)), id)
	checkBytes(t, "a late SEND", b.buf[:8], a.buf[8:16])
	r.drain()

	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWriteImm} {
		a, b = r.pairWith(verbs.QPConfig{}, fastFailParams())
		id = a.postAndRing(verbs.Request{Op: op, SGE: sgeList(a.mr, 8, 8), Remote: b.mr.Remote(0)})
		r.awaitFailure(a, id, verbs.StatusRNRRetryExceeded)
		r.checkFailed(a)
		b.close()
		r.drain()
	}
}

// A window cannot be bound to a region that does not allow it.
func checkStatusBind(t *testing.T, open Open) {
	r := newFixture(t, open)
	for _, access := range []verbs.Access{
		verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead, // no BindMW
		verbs.RemoteRead | verbs.BindMW,                         // a writable window on a region that is not writable
	} {
		a, _ := r.pair(verbs.QPConfig{})
		_, mr := r.regionWith(4096, 1, access)
		mw, err := r.pd.AllocMW(verbs.MWType2)
		if r.caps.MaxMW == 0 {
			r.checkError(err, verbs.ErrNotSupported, "a memory window")
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		id := r.tracker.nextID()
		_, err = a.BindMW(id, 0, mw, mr, 0, 64, verbs.RemoteWrite)
		a.expectCompletion(id, verbs.OpBindMW, 0, err)
		a.ringDoorbell()
		r.awaitFailure(a, id, verbs.StatusMWBind)
		r.checkFailed(a)
		r.drain()
	}
}

// A queue pair that enters the error state flushes its requests, each once.
func checkFlush(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	var sends, recvs []uint64
	for range 10 {
		recvs = append(recvs, a.postRecv(a.mr.SGE(0, 8)))
		sends = append(sends, a.post(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}))
	}
	a.ringDoorbell() // b has no receive, so they wait
	if err := a.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	for i := range sends {
		r.awaitFailure(a, sends[i], verbs.StatusFlushed)
		r.awaitFailure(a, recvs[i], verbs.StatusFlushed)
	}
	r.checkFailed(a)
	r.drain()

	// The peer stays connected until it sends.
	if s := must(b.State())(t); s != verbs.StateRTS {
		t.Fatalf("the peer is in %v", s)
	}
}

// A receive posted to a failed queue pair is flushed, whether or not package verbs knew of the failure when it was posted.
func checkLateReceives(t *testing.T, open Open) {
	r := newFixture(t, open)
	breakPair := func(a *endpoint) {
		t.Helper()
		id := a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 8), Remote: verbs.Remote{Addr: 8, RKey: 8}})
		r.awaitFailure(a, id, verbs.StatusRemoteAccess)
	}
	// A completion has reported the failure.
	a, b := r.pair(verbs.QPConfig{})
	breakPair(a)
	r.awaitFailure(a, a.postRecv(a.mr.SGE(0, 8)), verbs.StatusFlushed)
	// No completion has reported the failure, since the queue pair had no requests. The query of the state reports it.
	r.awaitState(b, verbs.StateErr)
	for range 3 {
		r.awaitFailure(b, b.postRecv(b.mr.SGE(0, 8)), verbs.StatusFlushed)
	}
	// Nothing has reported the failure when the receives are posted. A failed SEND reports it.
	a, b = r.pair(verbs.QPConfig{})
	breakPair(a)
	early := []uint64{b.postRecv(b.mr.SGE(0, 8)), b.postRecv(b.mr.SGE(0, 8))}
	r.awaitFailure(b, b.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(b.mr, 0, 8)}), verbs.StatusFlushed)
	for _, id := range append(early, b.postRecv(b.mr.SGE(0, 8))) {
		r.awaitFailure(b, id, verbs.StatusFlushed)
	}
	// A queue pair works again after a reset.
	r.reconnect(a, b)
	r.exchange(a, b)
	r.drain()
}
