//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

const signaled = uint32(uverbs.SendSignaled)

func TestPost(t *testing.T) {
	f := newFake(t)
	q, _ := f.pair(ib.Cap{SendWR: 8, SendSGE: 2, Inline: 4})
	dest := &ah{ptr: address(&f.ah)}
	windows, window := onHeap[ibv.MW](1)
	inline := []byte{1, 2, 3, 4}
	for i, wr := range []ib.SendWR{
		{ID: 1, Opcode: uint32(uverbs.WRRDMAWriteWithImm), Imm: 5, Remote: 6, RKey: 7,
			SGE: []ib.SGE{{Addr: 1, Len: 2, LKey: 3}, {Addr: 4}}},
		{ID: 2, Opcode: uint32(uverbs.WRSend), Flags: uint32(uverbs.SendInline), Inline: inline},
		{ID: 3, Opcode: uint32(uverbs.WRAtomicCmpAndSwp), Remote: 8, RKey: 9, Compare: 10, Swap: 11},
		{ID: 4, Opcode: uint32(uverbs.WRSend), AH: dest, QPN: 12, QKey: 13},
		{ID: 5, Opcode: uint32(uverbs.WRBindMW), Bind: ib.Bind{MW: &mw{ptr: window, kind: uverbs.MWType2}, RKey: 15,
			MR: &mr{ptr: 16}, Addr: 17, Length: 18, Access: 19}},
	} {
		if err := q.Post(&wr); err != nil {
			t.Fatalf("post %d: %v", i, err)
		}
		if wr.ID < 4 && f.postCalls != 0 {
			t.Errorf("%d calls before Ring, want 0", f.postCalls)
		}
		if wr.ID == 2 {
			clear(inline) // the request has its own copy
		}
	}
	// A bind is submitted immediately, after the requests before it, because it changes the window's key.
	if err := errors.Join(q.Ring(), q.Ring()); err != nil || f.postCalls != 2 || len(f.sends) != 5 {
		t.Fatalf("ring: %v, %d calls, %d requests; want 2 calls with 5", err, f.postCalls, len(f.sends))
	}
	if windows[0].RKey != 15 {
		t.Errorf("the window has the key %d, want 15", windows[0].RKey)
	}
	for i := range f.sends {
		if f.sends[i].WRID != uint64(i+1) {
			t.Errorf("request %d has id %d", i+1, f.sends[i].WRID)
		}
	}
	if got := *operation[ibv.RDMA](&f.sends[0]); got != (ibv.RDMA{RemoteAddr: 6, RKey: 7}) || f.sends[0].Ex != 5 {
		t.Errorf("write: %+v, immediate %d", got, f.sends[0].Ex)
	}
	if !slices.Equal(f.lists[0], []ib.SGE{{Addr: 1, Len: 2, LKey: 3}, {Addr: 4}}) {
		t.Errorf("list of the write: %+v", f.lists[0])
	}
	if !slices.Equal(f.data[1], []byte{1, 2, 3, 4}) {
		t.Errorf("inline data %v", f.data[1])
	}
	if got := *operation[ibv.Atomic](&f.sends[2]); got != (ibv.Atomic{RemoteAddr: 8, CompareAdd: 10, Swap: 11, RKey: 9}) {
		t.Errorf("atomic: %+v", got)
	}
	if got := *operation[ibv.UD](&f.sends[3]); got != (ibv.UD{AH: dest.ptr, RemoteQPN: 12, RemoteQKey: 13}) {
		t.Errorf("datagram: %+v", got)
	}
	bind := ibv.BindMW{MW: window, RKey: 15, BindInfo: ibv.MWBindInfo{MR: 16, Addr: 17, Length: 18, MWAccessFlags: 19}}
	if f.sends[4].Bind != bind {
		t.Errorf("bind: %+v", f.sends[4].Bind)
	}
	if err := q.Post(&ib.SendWR{SGE: make([]ib.SGE, 3)}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("list too long: %v, want EINVAL", err)
	}
}

// TestFull fills the queue with random sequences of signaled and unsignaled requests. Post must return ErrFull exactly when a
// device that frees a request after the poll of the completion that covers it is full. No request may be lost.
func TestFull(t *testing.T) {
	const size = 6
	f := newFake(t)
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		f.freeSlots, f.sends, f.wcs, f.completedSends = size, nil, nil, 0
		q, cq := f.pair(ib.Cap{SendWR: size, SendSGE: 1})
		posted, polled := 0, 0
		wc := make([]ib.WC, 3)
		for range 300 {
			switch rnd.IntN(4) {
			case 0, 1:
				flags := signaled * uint32(rnd.IntN(2))
				err := q.Post(&ib.SendWR{ID: uint64(posted), Flags: flags})
				held := posted - polled
				if full := held == size; full != errors.Is(err, ib.ErrFull) || err != nil && !full {
					t.Fatalf("seed %d: %d outstanding of %d: %v", seed, held, size, err)
				}
				if err == nil {
					posted++
				}
			case 2:
				if err := q.Ring(); err != nil {
					t.Fatalf("seed %d: ring: %v", seed, err)
				}
			case 3:
				f.complete()
				n, err := cq.Poll(wc)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range wc[:n] {
					f.freeSlots += int(c.ID) + 1 - polled
					polled = int(c.ID) + 1
				}
			}
		}
		if err := q.Ring(); err != nil || len(f.sends) != posted {
			t.Fatalf("seed %d: %d posted, the device has %d: %v", seed, posted, len(f.sends), err)
		}
	}
}

// TestFullCapacity checks that a queue takes no more requests than its capacity, even if the device would, and that completions
// of receives free no space.
func TestFullCapacity(t *testing.T) {
	f := newFake(t)
	q, cq := f.pair(ib.Cap{SendWR: 4, SendSGE: 1})
	for range 4 {
		if err := q.Post(&ib.SendWR{Flags: signaled}); err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range []uverbs.WCOpcode{uverbs.WCRecv, uverbs.WCRecvRDMAWithImm} {
		if err := q.Post(&ib.SendWR{Flags: signaled}); !errors.Is(err, ib.ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		f.wcs = []ib.WC{{QPN: 17, Opcode: uint32(op)}}
		if n, err := cq.Poll(make([]ib.WC, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := q.Post(&ib.SendWR{Flags: signaled}); !errors.Is(err, ib.ErrFull) {
		t.Errorf("after receives: got %v, want ErrFull", err)
	}
}

// TestUntracked checks that after a failed completion the device decides about each request.
func TestUntracked(t *testing.T) {
	f := newFake(t)
	q, cq := f.pair(ib.Cap{SendWR: 4, SendSGE: 1})
	f.wcs = []ib.WC{{QPN: 17, Status: uint32(uverbs.WCWRFlushErr)}}
	if n, err := cq.Poll(make([]ib.WC, 4)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f.freeSlots = 5 // more than requested, as with real devices
	for i := range 5 {
		if err := q.Post(&ib.SendWR{Flags: signaled}); err != nil || f.postCalls != i+1 {
			t.Errorf("post %d: %v, %d calls", i, err, f.postCalls)
		}
	}
	if err := q.Post(&ib.SendWR{}); !errors.Is(err, ib.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	f.freeSlots, f.nextErrors = 5, []syscall.Errno{syscall.EINVAL}
	if err := q.Post(&ib.SendWR{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want EINVAL", err)
	}
	if err := q.Ring(); err != nil {
		t.Errorf("ring with no request posted: %v", err)
	}
}

// TestRefused checks that Ring returns the number of lost requests, and that the queue can be used afterwards.
func TestRefused(t *testing.T) {
	f := newFake(t)
	q, _ := f.pair(ib.Cap{SendWR: 8, SendSGE: 1})
	for i := range 5 {
		if err := q.Post(&ib.SendWR{ID: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	f.nextErrors = []syscall.Errno{0, 0, syscall.EIO}
	err := q.Ring()
	var p *PostError
	if !errors.As(err, &p) || p.Dropped() != 3 || !errors.Is(err, syscall.EIO) || len(f.sends) != 2 {
		t.Errorf("got %v, %d queued; want 3 lost for EIO", err, len(f.sends))
	}
	if err := q.Post(&ib.SendWR{ID: 9}); err != nil || f.sends[len(f.sends)-1].WRID != 9 {
		t.Errorf("post after the error: %v", err)
	}
}

// TestReset checks that completions from before a reset are not taken for completions of later requests.
func TestReset(t *testing.T) {
	f := newFakeOf(t, 2)
	q, cq := f.pair(ib.Cap{SendWR: 2, SendSGE: 1})
	for range 2 {
		if err := q.Post(&ib.SendWR{Flags: signaled}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(q.Ring(), q.Modify(&ib.QPAttr{State: uint8(uverbs.QPSReset)}, uint32(uverbs.QPAttrState))); err != nil {
		t.Fatal(err)
	}
	f.freeSlots = 1
	if err := q.Post(&ib.SendWR{Flags: signaled}); err != nil {
		t.Fatal(err)
	}
	f.wcs = []ib.WC{{QPN: 17}, {QPN: 17}}
	if n, err := cq.Poll(make([]ib.WC, 4)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := q.Post(&ib.SendWR{Flags: signaled}); !errors.Is(err, ib.ErrFull) {
		t.Errorf("got %v, want ErrFull as the device returns", err)
	}
}

// TestSlots posts random requests in batches of random lengths. The device refuses some batches from some request on. Each
// request that it takes must be equal to the posted one, regardless of the previous contents of its slot. Together with the lost
// requests they must be all.
func TestSlots(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	f := newFake(t)
	q, _ := f.pair(ib.Cap{SendWR: 1 << 20, SendSGE: 3, Inline: 8})
	ops := []uverbs.WROpcode{uverbs.WRSend, uverbs.WRSendWithImm, uverbs.WRRDMAWrite, uverbs.WRAtomicFetchAndAdd}
	var want []ib.SendWR
	for id := range uint64(2000) {
		wr := ib.SendWR{ID: id, Opcode: uint32(ops[rnd.IntN(len(ops))]), Imm: rnd.Uint32(), Remote: rnd.Uint64(), RKey: rnd.Uint32(),
			Compare: rnd.Uint64(), Swap: rnd.Uint64()}
		if rnd.IntN(2) == 0 {
			wr.Flags, wr.Inline = uint32(uverbs.SendInline), binary.LittleEndian.AppendUint64(nil, rnd.Uint64())[:rnd.IntN(9)]
		} else {
			for range rnd.IntN(4) {
				wr.SGE = append(wr.SGE, ib.SGE{Addr: rnd.Uint64(), Len: rnd.Uint32(), LKey: rnd.Uint32()})
			}
		}
		if err := q.Post(&wr); err != nil {
			t.Fatal(err)
		}
		if want = append(want, wr); rnd.IntN(8) > 0 {
			continue
		}
		waiting := q.used
		if rnd.IntN(4) == 0 {
			f.nextErrors = append(make([]syscall.Errno, rnd.IntN(waiting)), syscall.EIO)
		}
		before, refused := len(f.sends), len(f.nextErrors) > 0
		err := q.Ring()
		lost := waiting - (len(f.sends) - before)
		if p := (*PostError)(nil); refused != errors.As(err, &p) || refused && p.Dropped() != lost {
			t.Fatalf("%d of %d requests were taken: %v", waiting-lost, waiting, err)
		}
		want = want[:len(want)-lost]
		q.space.untracked.Store(false) // so that requests are stored as before
	}
	if err := q.Ring(); err != nil || len(f.sends) != len(want) {
		t.Fatalf("the device has %d requests of %d: %v", len(f.sends), len(want), err)
	}
	for i, wr := range want {
		f.checkSend(i, &wr)
	}
}

// TestPostLast: a request that Ring follows is submitted by one call, without a copy of its inline data. If it is refused, it is
// as if it had not been posted.
func TestPostLast(t *testing.T) {
	f := newFake(t)
	q, _ := f.pair(ib.Cap{SendWR: 8, SendSGE: 1, Inline: 4})
	wr := &ib.SendWR{ID: 1, Opcode: uint32(uverbs.WRSend), Flags: uint32(uverbs.SendInline), Inline: []byte{1, 2, 3}, Last: true}
	if err := errors.Join(q.Post(wr), q.Ring()); err != nil || f.postCalls != 1 || len(f.sends) != 1 {
		t.Fatalf("%v, %d calls, %d requests; want 1 call with 1", err, f.postCalls, len(f.sends))
	}
	f.checkSend(0, wr)
	if at := f.lists[0][0].Addr; at != uint64(addressOf(wr.Inline)) {
		t.Errorf("the device reads the data at %#x, not where they are", at)
	}
	f.nextErrors = []syscall.Errno{syscall.EINVAL}
	if err := q.Post(wr); !errors.Is(err, syscall.EINVAL) || q.space.posted != 1 {
		t.Errorf("a request that is refused: %v, %d are counted", err, q.space.posted)
	}
	first := &ib.SendWR{ID: 2, Opcode: uint32(uverbs.WRSend)} // waits for Ring, so the next one does too
	if err := errors.Join(q.Post(first), q.Post(wr), q.Ring()); err != nil || f.postCalls != 3 || len(f.sends) != 3 {
		t.Errorf("two requests: %v, %d calls, %d requests; want 1 more call with 2", err, f.postCalls, len(f.sends))
	}
}

// TestRecvList posts lists of receives: one call takes up to maxRecvBatch. The device refuses some of them.
func TestRecvList(t *testing.T) {
	f := newFakeOf(t, 2*maxRecvBatch)
	q, _ := f.pair(ib.Cap{RecvWR: 2 * maxRecvBatch, RecvSGE: 2})
	list := make([]ib.RecvWR, 3*maxRecvBatch)
	for i := range list {
		list[i] = ib.RecvWR{ID: uint64(i), SGE: ib.SGE{Addr: uint64(i) << 8, Len: 1}}
	}
	if err := q.Recv(0, []ib.SGE{{Addr: 0, Len: 1}}); err != nil {
		t.Fatal(err)
	}
	if n, err := q.RecvList(list[1:4]); n != 3 || err != nil || f.postCalls != 2 {
		t.Errorf("%d of 3 receives, %d calls: %v", n, f.postCalls, err)
	}
	want := 2*maxRecvBatch - 4
	if n, err := q.RecvList(list[4:]); n != want || !errors.Is(err, ib.ErrFull) || f.postCalls != 4 {
		t.Errorf("%d receives, %d calls, %v; want %d, 4 calls and ErrFull", n, f.postCalls, err, want)
	}
	for i, id := range f.recvs {
		if id != uint64(i) || !slices.Equal(f.lists[i], []ib.SGE{list[i].SGE}) {
			t.Fatalf("receive %d is %d with %v", i, id, f.lists[i])
		}
	}
}

// TestRecvRefused: what the device names as the request that it refused is one of the list, or nothing is known to be queued.
func TestRecvRefused(t *testing.T) {
	var refused uintptr
	r := &recvQueue{badWR: &refused, firstAddr: 1 << 20}
	for at, want := range map[uintptr]int{
		0: 0, r.firstAddr - 1: 0, r.firstAddr: 0, r.firstAddr + recvWRSize: 1, r.firstAddr + 2*recvWRSize: 2,
		r.firstAddr + 3*recvWRSize: 0, ^uintptr(0): 0,
	} {
		if refused = at; r.queued(3) != want {
			t.Errorf("%#x: %d of 3 were queued, want %d", at, r.queued(3), want)
		}
	}
}

func TestRecv(t *testing.T) {
	f := newFakeOf(t, 2)
	q, _ := f.pair(ib.Cap{RecvWR: 2, RecvSGE: 2})
	s, err := (&pd{ctx: f.context()}).CreateSRQ(2, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Recv(1, []ib.SGE{{Addr: 2}, {Addr: 3}}), s.Recv(4, nil)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.recvs, []uint64{1, 4}) || !slices.Equal(f.lists[0], []ib.SGE{{Addr: 2}, {Addr: 3}}) || len(f.lists[1]) != 0 {
		t.Errorf("the device has %v with %v", f.recvs, f.lists)
	}
	if err := q.Recv(5, nil); !errors.Is(err, ib.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if err := s.Recv(6, make([]ib.SGE, 2)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("list too long: %v, want EINVAL", err)
	}
}

func TestPollBroken(t *testing.T) {
	f := newFake(t)
	_, cq := f.pair(ib.Cap{})
	f.wcs = []ib.WC{}
	if n, err := cq.Poll(make([]ib.WC, 1)); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %d, %v; want EIO", n, err)
	}
	if n, err := cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("poll for nothing: %d, %v", n, err)
	}
}

// TestCompletionsOfManyPairs checks that each completion frees space in the send queue of its own pair: also when pairs take
// turns, after a pair was closed, and for a later pair that has the number of a closed one.
func TestCompletionsOfManyPairs(t *testing.T) {
	f := newFake(t)
	f.lib.destroyQP = func(uintptr) int32 { return 0 }
	x := f.context()
	q, err := x.CreateCQ(100, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	create := func(num uint32) *qp {
		f.qp.QPNum = num
		f.lib.createQP = func(uintptr, *ibv.QPInitAttr) uintptr { return address(&f.qp) }
		p, err := (&pd{ctx: x}).CreateQP(ib.QPInit{SendCQ: q, RecvCQ: q, Cap: ib.Cap{SendWR: 4, SendSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := p.Post(&ib.SendWR{Flags: signaled}); err != nil {
				t.Fatal(err)
			}
		}
		return p.(*qp)
	}
	poll := func(numbers ...uint32) {
		t.Helper()
		for _, n := range numbers {
			f.wcs = append(f.wcs, ib.WC{QPN: n})
		}
		if n, err := q.Poll(make([]ib.WC, 8)); n != len(numbers) || err != nil {
			t.Fatalf("polled %d, %v", n, err)
		}
	}
	check := func(p *qp, completed uint32) {
		t.Helper()
		if got := p.space.signaledCompleted.Load(); got != completed {
			t.Errorf("pair %d: %d completions are counted, want %d", p.num, got, completed)
		}
	}
	a, b := create(1), create(2)
	poll(1, 1, 2, 1)
	check(a, 3)
	check(b, 1)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	poll(1, 2)
	check(a, 3)
	check(b, 2)
	c := create(1)
	poll(1)
	check(a, 3)
	check(c, 1)
	d := create(1) // before the first pair with the number is closed, as far as this package knows
	poll(1)
	check(c, 1)
	check(d, 1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	poll(1)
	check(d, 2)
}

// stubQueues returns a queue pair and a completion queue whose functions do nothing.
func stubQueues(tb testing.TB) (*qp, *cq) {
	x := stub(tb, 0)
	q := &qp{ctx: x}
	q.sendQueue.init(x, 0, 0, ib.Cap{SendWR: 1024, SendSGE: 1, Inline: 8}, true)
	q.recvQueue.init(x.lib, "ibv_post_recv", &x.ibvCtx.Ops.PostRecv, 0, 1)
	return q, &cq{ctx: x, sendSpaces: map[uint32]*sendSpace{0: q.space}}
}

func TestAllocs(t *testing.T) {
	q, c := stubQueues(t)
	one := &cq{ctx: c.ctx, ptr: 1, sendSpaces: c.sendSpaces} // each poll returns one completion
	wc := make([]ib.WC, 16)
	wr := &ib.SendWR{Opcode: uint32(uverbs.WRSend), SGE: make([]ib.SGE, 1)}
	short := &ib.SendWR{Opcode: uint32(uverbs.WRSend), Inline: make([]byte, 8)}
	last := &ib.SendWR{Opcode: uint32(uverbs.WRSend), Flags: uint32(uverbs.SendInline), Inline: make([]byte, 8), Last: true}
	list := make([]ib.RecvWR, 20)
	for name, f := range map[string]func() error{
		"Post and Ring": func() error { return errors.Join(q.Post(wr), q.Ring()) },
		"Post inline":   func() error { return q.Post(short) },
		"Post last":     func() error { return errors.Join(q.Post(last), q.Ring()) },
		"Recv":          func() error { return q.Recv(1, wr.SGE) },
		"RecvList":      func() error { _, err := q.RecvList(list); return err },
		"empty Poll":    func() error { _, err := c.Poll(wc); return err },
		"Poll":          func() error { _, err := one.Poll(wc); return err },
	} {
		var failed error
		n := alloctest.Count(100, func() { // at most 1024 sends in all
			if err := f(); err != nil {
				failed = err
			}
		})
		if failed != nil || n != 0 {
			t.Errorf("%s: %v allocations, want 0 (%v)", name, n, failed)
		}
	}
}

func BenchmarkPostRing(b *testing.B) {
	q, c := stubQueues(b)
	c.ptr = 1
	wr, wc := &ib.SendWR{SGE: make([]ib.SGE, 1)}, make([]ib.WC, 1)
	for b.Loop() {
		if err := errors.Join(q.Post(wr), q.Ring()); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Poll(wc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPollEmpty(b *testing.B) {
	_, c := stubQueues(b)
	wc := make([]ib.WC, 16)
	for b.Loop() {
		if n, err := c.Poll(wc); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// TestDirect compares direct calls with calls through the runtime.
func TestDirect(t *testing.T) {
	labs, s := function(t, "labs"), newStacks()
	if n := alloctest.Count(100, func() { s.call(labs, 1, 2, 3) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	stack := make([]byte, stackBytes)
	on := endOf(stack) &^ 15
	defer runtime.KeepAlive(stack)
	for _, arg := range []uintptr{0, 1, 1 << 40, ^uintptr(6)} { // the last is -7
		callAtDepth(100, func() {
			procPin()
			a := callOn(on, labs, arg, 0, 0)
			procUnpin()
			b, c := callOnGo(on, labs, arg, 0, 0), s.call(labs, arg, 0, 0)
			if a != b || b != c || a != uintptr(max(int(arg), -int(arg))) {
				t.Errorf("labs(%d) is %d, through the runtime %d, on the stack of the processor %d", int(arg), a, b, c)
			}
		})
	}
}

// TestDirectConcurrent calls a function that needs kilobytes of stack and makes system calls, while the runtime stops the world
// again and again, and stacks grow and move.
func TestDirectConcurrent(t *testing.T) {
	realpath, s := function(t, "realpath"), newStacks()
	stop := make(chan struct{})
	var collector, callers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range 100 {
		callers.Go(func() {
			path, pathAt := onHeap[byte](64)
			buf, bufAt := onHeap[byte](4096) // PATH_MAX
			copy(path, "/proc/../proc/./self/../sys")
			callAtDepth(2*i, func() {
				if got := s.call(realpath, pathAt, bufAt, 0); got != bufAt || !bytes.HasPrefix(buf, []byte("/proc/sys\x00")) {
					t.Errorf("got %#x and %q, want %#x", got, buf[:16], bufAt)
				}
			})
			runtime.KeepAlive(path)
		})
	}
	callers.Wait()
	close(stop)
	collector.Wait()
}

// callAtDepth calls f with n more frames on the stack.
func callAtDepth(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	callAtDepth(n-1, f)
}
