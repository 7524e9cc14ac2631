package verbstest

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// exchange posts a SEND, a WRITE and a READ from a to b, and checks that the connection works.
func (r *fixture) exchange(a, b *endpoint) {
	r.t.Helper()
	into := b.postRecv(b.mr.SGE(0, 64))
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 64, 64)}), into)
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 64, 64), Remote: b.mr.Remote(64)}))
	checkBytes(r.t, "a SEND", b.buf[:64], a.buf[64:128])
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: sgeList(a.mr, 128, 64), Remote: b.mr.Remote(64)}))
	checkBytes(r.t, "the bytes that were written and read back", a.buf[128:192], a.buf[64:128])
}

func checkRegions(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})

	// A region whose peers address it by an I/O virtual address.
	page := uint64(os.Getpagesize())
	at := b.mr.SGE(0, 1).Addr
	const iova = 0x7654_3210_0000
	far := must(r.pd.RegisterAddr(uintptr(at), bufferSize, iova+at%page, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead))(t)
	if got := far.Remote(8).Addr; got != iova+at%page+8 {
		t.Fatalf("byte 8 of a region at %#x is at %#x", iova+at%page, got)
	}
	want := bytes.Clone(b.buf)
	copy(want[12345:], a.buf[:9999])
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 9999), Remote: far.Remote(12345)}))
	checkBytes(t, "a WRITE to an address of the region's own", b.buf, want)
	into := b.postRecv(far.SGE(100, 500))
	copy(want[100:], a.buf[1:501])
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 1, 500)}), into)
	checkBytes(t, "a SEND to an address of the region's own", b.buf, want)

	// A large region that only its owner may use.
	plain, own := r.regionWith(3<<20, 5, 0)
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(own, 1<<20+1, bufferSize), Remote: b.mr.Remote(0)}))
	checkBytes(t, "a WRITE from read-only memory", b.buf, plain[1<<20+1:][:bufferSize])
	if own.Len() != 3<<20 {
		t.Fatalf("a region of %d bytes has %d", 3<<20, own.Len())
	}

	// Regions have different keys, and closing one leaves other regions of the same memory.
	if far.LKey() == b.mr.LKey() || far.RKey() == b.mr.RKey() {
		t.Fatalf("two regions have the keys %#x and %#x", far.LKey(), far.RKey())
	}
	for range 2 { // the second Close does nothing
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r.exchange(a, b)
	r.drain()
}

// A device changes a region, or reports that it cannot and leaves the region unchanged.
func checkReregister(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.region(4096, 1)
	write := func() uint64 {
		return a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 64), Remote: mr.Remote(0)})
	}
	other := fillPattern(make([]byte, 8192), 2)
	switch err := mr.SetMemory(other, verbs.LocalWrite|verbs.RemoteWrite); {
	case errors.Is(err, verbs.ErrNotSupported):
		r.checkError(err, verbs.ErrNotSupported, "other memory")
	case err != nil:
		t.Fatal(err)
	default:
		if buf = other; mr.Len() != len(other) {
			t.Fatalf("the region has %d bytes, not %d", mr.Len(), len(other))
		}
	}
	r.awaitSuccess(write())
	checkBytes(t, "a WRITE", buf[:64], a.buf[:64])
	r.checkError(mr.SetAccess(verbs.RemoteWrite), verbs.ErrInvalid, "remote writes without local ones")

	pd := must(r.ctx.AllocPD())(t)
	switch err := mr.SetPD(pd); {
	case errors.Is(err, verbs.ErrNotSupported):
	case err != nil:
		t.Fatal(err)
	default:
		r.checkError(pd.Close(), verbs.ErrBusy, "close the protection domain of a region")
		if err := mr.SetPD(r.pd); err != nil {
			t.Fatal(err)
		}
	}
	if err := pd.Close(); err != nil {
		t.Fatal(err)
	}
	r.awaitSuccess(write())

	switch err := mr.SetAccess(verbs.LocalWrite); {
	case errors.Is(err, verbs.ErrNotSupported):
		r.awaitSuccess(write())
	case err != nil:
		t.Fatal(err)
	default:
		r.awaitFailure(a, write(), verbs.StatusRemoteAccess)
	}
	b.close()
	r.drain()
}

// newWindow makes a memory window and binds it to n bytes of a region, from offset off. If the device has no windows, it checks
// the error and returns false.
func (r *fixture) newWindow(kind verbs.MWType, e *endpoint, mr *verbs.MR, off, n int) (*verbs.MW, verbs.Remote, bool) {
	r.t.Helper()
	mw, err := r.pd.AllocMW(kind)
	if r.caps.MaxMW == 0 || errors.Is(err, verbs.ErrNotSupported) {
		r.checkError(err, verbs.ErrNotSupported, "a memory window")
		return nil, verbs.Remote{}, false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return mw, r.bindWindow(e, mw, mr, off, n), true
}

func (r *fixture) bindWindow(e *endpoint, mw *verbs.MW, mr *verbs.MR, off, n int) verbs.Remote {
	r.t.Helper()
	id := r.tracker.nextID()
	key, err := e.BindMW(id, verbs.Signaled, mw, mr, off, n, verbs.RemoteWrite|verbs.RemoteRead)
	e.expectCompletion(id, verbs.OpBindMW, verbs.Signaled, err)
	e.ringDoorbell()
	r.awaitSuccess(id)
	if key != mw.RKey() {
		r.t.Fatalf("the window was bound with the key %#x, but has %#x", key, mw.RKey())
	}
	return verbs.Remote{Addr: mr.Remote(off).Addr, RKey: key}
}

const windowAccess = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.BindMW

// checkWindow writes through a window and reads the bytes back.
func (r *fixture) checkWindow(a *endpoint, at verbs.Remote, into []byte) {
	r.t.Helper()
	fillPattern(a.buf[:1000], uint64(at.RKey))
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 1000), Remote: at}))
	checkBytes(r.t, "a WRITE through a window", into[:1000], a.buf[:1000])
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: sgeList(a.mr, 2000, 1000), Remote: at}))
	checkBytes(r.t, "a READ through a window", a.buf[2000:3000], a.buf[:1000])
}

// checkNoAccess checks that a key does not allow a WRITE. It uses a new queue pair, because the failure breaks the connection.
func (r *fixture) checkNoAccess(what string, at verbs.Remote) {
	r.t.Helper()
	a, b := r.pair(verbs.QPConfig{})
	r.checkNoAccessFrom(what, a, at)
	b.close()
	a.close()
}

func (r *fixture) checkNoAccessFrom(what string, a *endpoint, at verbs.Remote) {
	r.t.Helper()
	id := a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 8), Remote: at})
	if wc := r.await(id); wc.Status != verbs.StatusRemoteAccess {
		r.t.Fatalf("%s: %v", what, wc.Status)
	}
}

func checkWindowType1(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(bufferSize, 1, windowAccess)
	mw, at, ok := r.newWindow(verbs.MWType1, b, mr, 4096, 2000)
	if !ok {
		return
	}
	r.checkWindow(a, at, buf[4096:])
	next := r.bindWindow(b, mw, mr, 9000, 1000)
	r.checkWindow(a, next, buf[9000:])
	r.checkNoAccess("the key of an earlier bind", at)
	if !r.isRXE { // rxe checks only the bounds of the region
		r.checkNoAccess("before a window", verbs.Remote{Addr: next.Addr - 1, RKey: next.RKey})
		r.checkNoAccess("after a window", verbs.Remote{Addr: next.Addr + 996, RKey: next.RKey})
	}
	r.checkNoAccess("after a window and its region", verbs.Remote{Addr: mr.Remote(bufferSize).Addr - 4, RKey: next.RKey})
	c, _ := r.pair(verbs.QPConfig{}) // a type 1 window works with every queue pair of its protection domain
	r.checkWindow(c, next, buf[9000:])
	r.bindWindow(b, mw, mr, 0, 0)
	r.checkNoAccess("an unbound window", next)
	r.drain()
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkWindowType2(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(bufferSize, 1, windowAccess)
	mw, at, ok := r.newWindow(verbs.MWType2, b, mr, 4096, 2000)
	if !ok {
		return
	}
	r.checkWindow(a, at, buf[4096:])
	r.checkNoAccess("another queue pair", at)
	e := r.checkError(b.Close(), verbs.ErrBusy, "close the queue pair of a window")
	if !strings.Contains(e.Detail, "memory window") {
		t.Fatalf("%v does not name the window", e)
	}
	r.checkError(mr.Close(), verbs.ErrBusy, "close the region of a window")
	r.checkWindow(a, at, buf[4096:])
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
	r.checkNoAccessFrom("a closed window", a, at)
	b.close()
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	r.drain()
}

// The owner or the peer can invalidate a window. The peer can use it until then.
func checkInvalidate(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(bufferSize, 1, windowAccess)
	mw, at, ok := r.newWindow(verbs.MWType2, b, mr, 0, 2000)
	if !ok {
		return
	}
	r.checkWindow(a, at, buf)
	into := b.postRecv(b.mr.SGE(0, 8))
	id := r.tracker.nextID()
	a.expectCompletion(id, verbs.OpSendInvalidate, verbs.Signaled,
		a.SendInvalidate(id, verbs.Signaled, at.RKey, a.mr.SGE(0, 8)))
	a.ringDoorbell()
	if wc := r.awaitSuccess(id, into); wc.Flags&verbs.WithInvalidate == 0 || wc.Invalidated() != at.RKey || wc.Len != 8 {
		t.Fatalf("a SEND that invalidates %#x: %+v", at.RKey, wc)
	}
	again := r.bindWindow(b, mw, mr, 3000, 2000) // only an invalidated window can be bound
	r.checkWindow(a, again, buf[3000:])
	r.awaitSuccess(b.postAndRing(verbs.Request{Op: verbs.OpLocalInvalidate, Key: again.RKey}))
	third := r.bindWindow(b, mw, mr, 6000, 2000)
	r.checkWindow(a, third, buf[6000:])
	id = r.tracker.nextID()
	b.expectCompletion(id, verbs.OpLocalInvalidate, verbs.Signaled, b.LocalInvalidate(id, verbs.Signaled, third.RKey))
	b.ringDoorbell()
	r.awaitSuccess(id)
	r.checkNoAccessFrom("an invalidated window", a, third)
	// After that it can be bound to another queue pair, and no longer belongs to the first one.
	c, d := r.pair(verbs.QPConfig{})
	r.checkWindow(c, r.bindWindow(d, mw, mr, 9000, 2000), buf[9000:])
	b.close()
	r.checkError(d.Close(), verbs.ErrBusy, "close the queue pair of a window")
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
	d.close()
	r.drain()
}
