package verbstest

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// exchange has a SEND, a WRITE and a READ go from a to b, to see that they are well.
func (r *rig) exchange(a, b *end) {
	r.t.Helper()
	into := b.recv(b.mr.SGE(0, 64))
	r.ok(a.do(verbs.Request{Op: verbs.OpSend, SGE: list(a.mr, 64, 64)}), into)
	r.ok(a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, 64, 64), Remote: b.mr.Remote(64)}))
	same(r.t, "a SEND", b.buf[:64], a.buf[64:128])
	r.ok(a.do(verbs.Request{Op: verbs.OpRead, SGE: list(a.mr, 128, 64), Remote: b.mr.Remote(64)}))
	same(r.t, "what was written and read back", a.buf[128:192], a.buf[64:128])
}

func checkRegions(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{})

	// Memory at an address, which peers count from elsewhere.
	page := uint64(os.Getpagesize())
	at := b.mr.SGE(0, 1).Addr
	const iova = 0x7654_3210_0000
	far := must(r.pd.RegisterAddr(uintptr(at), memory, iova+at%page, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead))(t)
	if got := far.Remote(8).Addr; got != iova+at%page+8 {
		t.Fatalf("byte 8 of memory from %#x on is at %#x", iova+at%page, got)
	}
	want := bytes.Clone(b.buf)
	copy(want[12345:], a.buf[:9999])
	r.ok(a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, 0, 9999), Remote: far.Remote(12345)}))
	same(t, "a WRITE to an address of the region's own", b.buf, want)
	into := b.recv(far.SGE(100, 500))
	copy(want[100:], a.buf[1:501])
	r.ok(a.do(verbs.Request{Op: verbs.OpSend, SGE: list(a.mr, 1, 500)}), into)
	same(t, "a SEND to an address of the region's own", b.buf, want)

	// Memory that only the owner may use, and a large region.
	plain, own := r.regionWith(3<<20, 5, 0)
	r.ok(a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(own, 1<<20+1, memory), Remote: b.mr.Remote(0)}))
	same(t, "a WRITE from read-only memory", b.buf, plain[1<<20+1:][:memory])
	if own.Len() != 3<<20 {
		t.Fatalf("a region of %d bytes has %d", 3<<20, own.Len())
	}

	// Keys are not shared, and closing one region leaves others of the same memory.
	if far.LKey() == b.mr.LKey() || far.RKey() == b.mr.RKey() {
		t.Fatalf("two regions have the keys %#x and %#x", far.LKey(), far.RKey())
	}
	for range 2 { // the second does nothing
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r.exchange(a, b)
	r.settle()
}

// A device changes a region, or says that it cannot and leaves it as it was.
func checkReregister(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.region(4096, 1)
	write := func() uint64 {
		return a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, 0, 64), Remote: mr.Remote(0)})
	}
	other := fill(make([]byte, 8192), 2)
	switch err := mr.SetMemory(other, verbs.LocalWrite|verbs.RemoteWrite); {
	case errors.Is(err, verbs.ErrNotSupported):
		r.refused(err, verbs.ErrNotSupported, "other memory")
	case err != nil:
		t.Fatal(err)
	default:
		if buf = other; mr.Len() != len(other) {
			t.Fatalf("the region has %d bytes, not %d", mr.Len(), len(other))
		}
	}
	r.ok(write())
	same(t, "a WRITE", buf[:64], a.buf[:64])
	r.refused(mr.SetAccess(verbs.RemoteWrite), verbs.ErrInvalid, "remote writes without local ones")

	pd := must(r.ctx.AllocPD())(t)
	switch err := mr.SetPD(pd); {
	case errors.Is(err, verbs.ErrNotSupported):
	case err != nil:
		t.Fatal(err)
	default:
		r.refused(pd.Close(), verbs.ErrBusy, "close the domain of a region")
		if err := mr.SetPD(r.pd); err != nil {
			t.Fatal(err)
		}
	}
	if err := pd.Close(); err != nil {
		t.Fatal(err)
	}
	r.ok(write())

	switch err := mr.SetAccess(verbs.LocalWrite); {
	case errors.Is(err, verbs.ErrNotSupported):
		r.ok(write())
	case err != nil:
		t.Fatal(err)
	default:
		r.fails(a, write(), verbs.StatusRemoteAccess)
	}
	b.close()
	r.settle()
}

// window makes a memory window and binds it to n bytes from off on of a region. It returns false where the device has no
// windows, and then checks that it says so.
func (r *rig) window(kind verbs.MWType, e *end, mr *verbs.MR, off, n int) (*verbs.MW, verbs.Remote, bool) {
	r.t.Helper()
	mw, err := r.pd.AllocMW(kind)
	if r.caps.MaxMW == 0 || errors.Is(err, verbs.ErrNotSupported) {
		r.refused(err, verbs.ErrNotSupported, "a memory window")
		return nil, verbs.Remote{}, false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return mw, r.bind(e, mw, mr, off, n), true
}

func (r *rig) bind(e *end, mw *verbs.MW, mr *verbs.MR, off, n int) verbs.Remote {
	r.t.Helper()
	id := r.book.id()
	key, err := e.BindMW(id, verbs.Signaled, mw, mr, off, n, verbs.RemoteWrite|verbs.RemoteRead)
	e.sent(id, verbs.OpBindMW, verbs.Signaled, err)
	e.ring()
	r.ok(id)
	if key != mw.RKey() {
		r.t.Fatalf("the window was bound with the key %#x and has %#x", key, mw.RKey())
	}
	return verbs.Remote{Addr: mr.Remote(off).Addr, RKey: key}
}

const bindable = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.BindMW

// through writes through a window and reads back.
func (r *rig) through(a *end, at verbs.Remote, into []byte) {
	r.t.Helper()
	fill(a.buf[:1000], uint64(at.RKey))
	r.ok(a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, 0, 1000), Remote: at}))
	same(r.t, "a WRITE through a window", into[:1000], a.buf[:1000])
	r.ok(a.do(verbs.Request{Op: verbs.OpRead, SGE: list(a.mr, 2000, 1000), Remote: at}))
	same(r.t, "a READ through a window", a.buf[2000:3000], a.buf[:1000])
}

// barred checks that a key does not allow a WRITE. It takes a fresh pair, since what is refused breaks the connection.
func (r *rig) barred(what string, at verbs.Remote) {
	r.t.Helper()
	a, b := r.pair(verbs.QPConfig{})
	r.barredFrom(what, a, at)
	b.close()
	a.close()
}

func (r *rig) barredFrom(what string, a *end, at verbs.Remote) {
	r.t.Helper()
	id := a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, 0, 8), Remote: at})
	if wc := r.await(id); wc.Status != verbs.StatusRemoteAccess {
		r.t.Fatalf("%s: %v", what, wc.Status)
	}
}

func checkWindowType1(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(memory, 1, bindable)
	mw, at, ok := r.window(verbs.MWType1, b, mr, 4096, 2000)
	if !ok {
		return
	}
	r.through(a, at, buf[4096:])
	next := r.bind(b, mw, mr, 9000, 1000)
	r.through(a, next, buf[9000:])
	r.barred("the key of an earlier bind", at)
	if !r.soft { // rxe checks only whether it is in the region
		r.barred("before a window", verbs.Remote{Addr: next.Addr - 1, RKey: next.RKey})
		r.barred("behind a window", verbs.Remote{Addr: next.Addr + 996, RKey: next.RKey})
	}
	r.barred("behind a window and its region", verbs.Remote{Addr: mr.Remote(memory).Addr - 4, RKey: next.RKey})
	c, _ := r.pair(verbs.QPConfig{}) // of another pair of the same domain
	r.through(c, next, buf[9000:])
	r.bind(b, mw, mr, 0, 0)
	r.barred("a window that was unbound", next)
	r.settle()
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkWindowType2(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(memory, 1, bindable)
	mw, at, ok := r.window(verbs.MWType2, b, mr, 4096, 2000)
	if !ok {
		return
	}
	r.through(a, at, buf[4096:])
	r.barred("another queue pair", at)
	if e := r.refused(b.Close(), verbs.ErrBusy, "close the pair of a window"); !strings.Contains(e.Detail, "memory window") {
		t.Fatalf("%v does not name the window", e)
	}
	r.refused(mr.Close(), verbs.ErrBusy, "close the region of a window")
	r.through(a, at, buf[4096:])
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
	r.barredFrom("a window that was closed", a, at)
	b.close()
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	r.settle()
}

// Windows are taken back by their owner or by the peer, who may use them until then.
func checkInvalidate(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{})
	buf, mr := r.regionWith(memory, 1, bindable)
	mw, at, ok := r.window(verbs.MWType2, b, mr, 0, 2000)
	if !ok {
		return
	}
	r.through(a, at, buf)
	into := b.recv(b.mr.SGE(0, 8))
	id := r.book.id()
	a.sent(id, verbs.OpSendInvalidate, verbs.Signaled, a.SendInvalidate(id, verbs.Signaled, at.RKey, a.mr.SGE(0, 8)))
	a.ring()
	if wc := r.ok(id, into); wc.Flags&verbs.WithInvalidate == 0 || wc.Invalidated() != at.RKey || wc.Len != 8 {
		t.Fatalf("a SEND that invalidates %#x: %+v", at.RKey, wc)
	}
	again := r.bind(b, mw, mr, 3000, 2000) // only a window that is free can be bound
	r.through(a, again, buf[3000:])
	r.ok(b.do(verbs.Request{Op: verbs.OpLocalInvalidate, Key: again.RKey}))
	third := r.bind(b, mw, mr, 6000, 2000)
	r.through(a, third, buf[6000:])
	id = r.book.id()
	b.sent(id, verbs.OpLocalInvalidate, verbs.Signaled, b.LocalInvalidate(id, verbs.Signaled, third.RKey))
	b.ring()
	r.ok(id)
	r.barredFrom("a window that was invalidated", a, third)
	// It can be bound to another pair then, and is not the first one's any more.
	c, d := r.pair(verbs.QPConfig{})
	r.through(c, r.bind(d, mw, mr, 9000, 2000), buf[9000:])
	b.close()
	r.refused(d.Close(), verbs.ErrBusy, "close the pair of a window")
	if err := mw.Close(); err != nil {
		t.Fatal(err)
	}
	d.close()
	r.settle()
}
