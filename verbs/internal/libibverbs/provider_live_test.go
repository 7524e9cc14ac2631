//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

func TestLiveQueries(t *testing.T) {
	r := newRig(t)
	d := must[ib.DeviceAttr](t)(r.x.QueryDevice())
	if d.Ports != 1 || d.MaxQP < 1000 || d.MaxCQE < 1000 || d.MaxSGE < 2 || d.MaxSRQSGE < 2 || d.MaxPKeys < 1 ||
		d.NodeGUID>>40 == 0 {
		t.Errorf("device %+v", d)
	}
	p := r.port
	if uverbs.PortState(p.State) != uverbs.PortActive || uverbs.LinkLayer(p.LinkLayer) != uverbs.LinkLayerEthernet ||
		p.MaxMsgSize < 1<<20 || p.GIDTableLen < 2 || p.PKeyTableLen != 1 {
		t.Errorf("port %+v", p)
	}
	if _, err := r.x.QueryPort(9); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("port 9: %v, want EINVAL", err)
	}
	if r.gid.Port != 1 || r.gid.Netdev == 0 {
		t.Errorf("GID %+v", r.gid)
	}
	if key := must[uint16](t)(r.x.QueryPKey(1, 0)); key != 0xffff {
		t.Errorf("P_Key %#x", key)
	}
	if _, err := r.x.QueryPKey(1, 9999); err == nil {
		t.Error("P_Key 9999 exists")
	}
	if _, err := r.pd.RegMR(4096, 4096, 4096, allAccess); !errors.Is(err, syscall.EFAULT) && !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("registration of unmapped memory: %v", err)
	}
	if err := r.pd.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("close of a domain in use: %v, want EBUSY", err)
	}
}

// TestLiveConnected uses every operation of reliable queue pairs.
func TestLiveConnected(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(uverbs.QPTRC)
	rand := bytes.Repeat([]byte("0123456789abcde"), half/15)
	copy(r.mem, rand)
	into := r.mem[half:]

	r.ok(b.Recv(1, []ib.SGE{r.sge(half, 100), r.sge(half+1000, 5000)}))
	r.send(a, ib.SendWR{ID: 2, Opcode: uint32(uverbs.WRSendWithImm), Imm: 0x01020304, SGE: []ib.SGE{r.sge(0, 10), r.sge(10, 4990)}})
	c := r.done(1, 2)[1]
	if c.Len != 5000 || c.Imm != 0x01020304 || uverbs.WCFlags(c.Flags)&uverbs.WCWithImm == 0 || c.QPN != b.Num() ||
		uverbs.WCOpcode(c.Opcode) != uverbs.WCRecv {
		t.Errorf("receive %+v", c)
	}
	if !bytes.Equal(into[:100], rand[:100]) || !bytes.Equal(into[1000:5900], rand[100:5000]) {
		t.Error("the received data differ from those that were sent")
	}

	r.ok(b.Recv(3, []ib.SGE{r.sge(half, 64)}))
	r.send(a, ib.SendWR{ID: 4, Opcode: uint32(uverbs.WRSend), Flags: uint32(uverbs.SendInline), Inline: []byte("inline")})
	if c := r.done(3, 4)[3]; c.Len != 6 || !bytes.Equal(into[:6], []byte("inline")) {
		t.Errorf("inline: %+v, %q", c, into[:6])
	}

	r.ok(b.Recv(5, nil))
	r.send(a, ib.SendWR{ID: 6, Opcode: uint32(uverbs.WRRDMAWriteWithImm), Imm: 9, SGE: []ib.SGE{r.sge(0, half)},
		Remote: r.addr(half), RKey: r.rkey()})
	if c := r.done(5, 6)[5]; uverbs.WCOpcode(c.Opcode) != uverbs.WCRecvRDMAWithImm || c.Imm != 9 ||
		!bytes.Equal(into, r.mem[:half]) {
		t.Errorf("write: %+v", c)
	}

	binary.NativeEndian.PutUint64(into, 40)
	r.send(a, ib.SendWR{ID: 7, Opcode: uint32(uverbs.WRAtomicFetchAndAdd), Compare: 2, SGE: []ib.SGE{r.sge(0, 8)},
		Remote: r.addr(half), RKey: r.rkey()})
	r.done(7)
	r.send(a, ib.SendWR{ID: 8, Opcode: uint32(uverbs.WRAtomicCmpAndSwp), Compare: 42, Swap: 77, SGE: []ib.SGE{r.sge(8, 8)},
		Remote: r.addr(half), RKey: r.rkey()})
	r.done(8)
	r.send(a, ib.SendWR{ID: 9, Opcode: uint32(uverbs.WRRDMARead), SGE: []ib.SGE{r.sge(16, 8)}, Remote: r.addr(half), RKey: r.rkey()})
	r.done(9)
	for i, want := range []uint64{40, 42, 77} {
		if got := binary.NativeEndian.Uint64(r.mem[8*i:]); got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
	if q := must[ib.QPAttr](t)(a.Query(uint32(uverbs.QPAttrState | uverbs.QPAttrAV))); uverbs.QPState(q.State) != uverbs.QPSRTS ||
		q.DestQPN != b.Num() || q.AH.DGID != r.gid.GID {
		t.Errorf("queue pair %+v", q)
	}
}

// TestLiveBatch posts more requests than fit into one batch, twice the size of the queue. Only the last of them is signaled.
func TestLiveBatch(t *testing.T) {
	r := newRig(t)
	a, _ := r.pair(uverbs.QPTRC)
	n := int(a.Cap().SendWR)
	for round := range 6 {
		for i := range n {
			wr := ib.SendWR{ID: uint64(i), Opcode: uint32(uverbs.WRRDMAWrite), SGE: []ib.SGE{r.sge(i, 1)},
				Remote: r.addr(half + i), RKey: r.rkey()}
			r.mem[i] = byte(round + i)
			if i == n-1 {
				wr.Flags = signaled
			}
			r.ok(a.Post(&wr))
		}
		r.ok(a.Ring())
		r.done(uint64(n - 1))
		if !bytes.Equal(r.mem[half:half+n], r.mem[:n]) {
			t.Fatalf("round %d: wrote %v of %v", round, r.mem[half:half+n], r.mem[:n])
		}
	}
}

// TestLiveFull posts until the queue is full, and counts completions.
func TestLiveFull(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(uverbs.QPTRC)
	n := 0
	for ; n < 1000; n++ {
		wr := ib.SendWR{ID: uint64(n), Opcode: uint32(uverbs.WRSend), Flags: signaled}
		if err := a.Post(&wr); errors.Is(err, ib.ErrFull) {
			break
		} else {
			r.ok(err)
		}
	}
	r.ok(a.Ring())
	if n != int(a.Cap().SendWR) {
		t.Errorf("took %d requests, capacity %d", n, a.Cap().SendWR)
	}
	var ids []uint64
	for i := range n {
		for errors.Is(b.Recv(uint64(1000+i), nil), ib.ErrFull) {
			runtime.Gosched()
		}
		ids = append(ids, uint64(i), uint64(1000+i))
	}
	r.done(ids...)
	if err := a.Post(&ib.SendWR{ID: 1, Opcode: uint32(uverbs.WRSend), Flags: signaled}); err != nil {
		t.Errorf("after all completed: %v", err)
	}
	for i := range 1000 {
		if err := b.Recv(uint64(i), nil); errors.Is(err, ib.ErrFull) {
			return
		} else {
			r.ok(err)
		}
	}
	t.Error("the receive queue is never full")
}

// TestLiveFailed uses a key that does not exist: the request fails, later ones are flushed, and posts still succeed.
func TestLiveFailed(t *testing.T) {
	r := newRig(t)
	a, _ := r.pair(uverbs.QPTRC)
	for id := range uint64(3) {
		r.ok(a.Post(&ib.SendWR{ID: id, Opcode: uint32(uverbs.WRRDMAWrite), SGE: []ib.SGE{r.sge(0, 1)}, Flags: signaled,
			Remote: r.addr(half), RKey: r.rkey() + 1<<8}))
	}
	r.ok(a.Ring())
	got := r.wait(3)
	for id, want := range []uverbs.WCStatus{uverbs.WCRemAccessErr, uverbs.WCWRFlushErr, uverbs.WCWRFlushErr} {
		if c := got[uint64(id)]; uverbs.WCStatus(c.Status) != want || c.QPN != a.Num() {
			t.Errorf("request %d: %+v, want status %d", id, c, want)
		}
	}
	r.send(a, ib.SendWR{ID: 9, Opcode: uint32(uverbs.WRSend)})
	if c := r.wait(1)[9]; uverbs.WCStatus(c.Status) != uverbs.WCWRFlushErr {
		t.Errorf("in the state ERR: %+v, want it flushed", c)
	}
}

func TestLiveUnconnected(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(uverbs.QPTUC)
	r.ok(b.Recv(1, []ib.SGE{r.sge(half, 100)}))
	r.send(a, ib.SendWR{ID: 2, Opcode: uint32(uverbs.WRSend), SGE: []ib.SGE{r.sge(0, 100)}})
	r.done(1, 2)

	const grh = 40 // a datagram is preceded by space for its header
	a, b = r.pair(uverbs.QPTUD)
	ah := must[ib.AH](t)(r.pd.CreateAH(r.ownAddress()))
	r.closeLater(ah)
	copy(r.mem, "datagram")
	r.ok(b.Recv(3, []ib.SGE{r.sge(half, grh+8)}))
	r.send(a, ib.SendWR{ID: 4, Opcode: uint32(uverbs.WRSend), SGE: []ib.SGE{r.sge(0, 8)}, AH: ah, QPN: b.Num(), QKey: qkey})
	c := r.done(3, 4)[3]
	if c.Len != grh+8 || c.SrcQP != a.Num() || uverbs.WCFlags(c.Flags)&uverbs.WCGRH == 0 ||
		string(r.mem[half+grh:half+grh+8]) != "datagram" {
		t.Errorf("datagram %+v, %q", c, r.mem[half:half+grh+8])
	}
	group := [16]byte{0xff, 0x0e, 15: 1}
	r.ok(b.AttachMulticast(group, 0))
	r.ok(b.DetachMulticast(group, 0))
}

// TestLiveShared receives through a shared queue, and reads the event of its limit. The test never acknowledges the event, and
// yet Close of the queue does not hang.
func TestLiveShared(t *testing.T) {
	r := newRig(t)
	s := must[ib.SRQ](t)(r.pd.CreateSRQ(8, 1, 0))
	r.closeLater(s)
	a, b := r.qp(uverbs.QPTRC, nil), r.qp(uverbs.QPTRC, s)
	r.connect(a, b, uverbs.QPTRC)
	r.connect(b, a, uverbs.QPTRC)
	r.ok(s.Recv(1, []ib.SGE{r.sge(half, 8)}))
	r.ok(s.Recv(2, []ib.SGE{r.sge(half+8, 8)}))
	r.ok(s.Modify(uint32(uverbs.SRQAttrLimit), 0, 2))
	if wr, sge, limit, err := s.Query(); err != nil || wr < 8 || sge < 1 || limit != 2 {
		t.Errorf("queue of %d, %d, limit %d, %v", wr, sge, limit, err)
	}
	copy(r.mem, "to share")
	r.send(a, ib.SendWR{ID: 3, Opcode: uint32(uverbs.WRSend), SGE: []ib.SGE{r.sge(0, 8)}})
	r.done(1, 3)
	if string(r.mem[half:half+8]) != "to share" {
		t.Errorf("received %q", r.mem[half:half+8])
	}
	e := r.event()
	r.isEvent(e, uverbs.EventSRQLimitReached, s.Token())
}

// event blocks until one asynchronous event arrives.
func (r *rig) event() []byte {
	r.Helper()
	e := make([]byte, asyncEventSize)
	r.readable(r.x.AsyncFD())
	if n := must[int](r)(r.x.(ib.EventReader).ReadEvents(e)); n != len(e) {
		r.Fatalf("read %d bytes of an event", n)
	}
	return e
}

func (r *rig) isEvent(e []byte, kind uverbs.EventType, token uint64) {
	r.Helper()
	if uverbs.EventType(binary.NativeEndian.Uint32(e[8:])) != kind || binary.NativeEndian.Uint64(e) != token {
		r.Errorf("event %x, want type %d of %d", e, kind, token)
	}
}

// TestLiveOverrun overruns a completion queue. The test reads the event for it, and then closes the queue. There may be further
// events, which are never read.
func TestLiveOverrun(t *testing.T) {
	r := newRig(t)
	small := must[ib.CQ](t)(r.x.CreateCQ(1, nil, 0))
	r.closeLater(small)
	q := must[ib.QP](t)(r.pd.CreateQP(ib.QPInit{Type: uint8(uverbs.QPTRC), SendCQ: small, RecvCQ: small,
		Cap: ib.Cap{SendWR: 64, SendSGE: 1}}))
	r.closeLater(q)
	r.connect(q, q, uverbs.QPTRC)
	for i := range 64 {
		r.ok(q.Post(&ib.SendWR{ID: uint64(i), Opcode: uint32(uverbs.WRRDMAWrite), Flags: signaled,
			Remote: r.addr(0), RKey: r.rkey()}))
	}
	r.ok(q.Ring())
	e := r.event()
	r.isEvent(e, uverbs.EventCQErr, small.Token())
}

// TestLiveChannel waits for completion events repeatedly.
func TestLiveChannel(t *testing.T) {
	r := newRig(t)
	a, _ := r.pair(uverbs.QPTRC)
	tokens := make([]byte, 4*compEventSize)
	for id := range uint64(20) {
		if n, err := r.ch.ReadEvents(tokens); n != 0 || !errors.Is(err, syscall.EAGAIN) {
			t.Fatalf("round %d: %d bytes, %v; want EAGAIN", id, n, err)
		}
		r.ok(r.cq.Notify(false))
		r.send(a, ib.SendWR{ID: id, Opcode: uint32(uverbs.WRRDMAWrite), Remote: r.addr(half), RKey: r.rkey()})
		r.readable(r.ch.FD())
		if n, err := r.ch.ReadEvents(tokens); n != compEventSize || err != nil || binary.NativeEndian.Uint64(tokens) != r.cq.Token() {
			t.Fatalf("round %d: %d bytes %x, %v", id, n, tokens, err)
		}
		r.done(id)
	}
	r.ok(r.cq.Notify(false)) // the event of this request is never read
	r.send(a, ib.SendWR{ID: 99, Opcode: uint32(uverbs.WRRDMAWrite), Remote: r.addr(half), RKey: r.rkey()})
	r.done(99)
	r.ok(r.cq.Resize(200))
	if r.cq.Len() < 200 {
		t.Errorf("resized to %d", r.cq.Len())
	}
}

// TestLiveWindows binds memory windows of both types, and invalidates one from either side.
func TestLiveWindows(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(uverbs.QPTRC)
	one, two := must[ib.MW](t)(r.pd.AllocMW(uint8(uverbs.MWType1))), must[ib.MW](t)(r.pd.AllocMW(uint8(uverbs.MWType2)))
	r.closeLater(one)
	r.closeLater(two)
	bind := ib.Bind{MR: r.mr, Addr: r.addr(half), Length: 64, Access: uint32(uverbs.AccessRemoteWrite)}
	write := func(id uint64, key uint32) ib.SendWR {
		return ib.SendWR{ID: id, Opcode: uint32(uverbs.WRRDMAWrite), SGE: []ib.SGE{r.sge(0, 8)}, Remote: r.addr(half), RKey: key}
	}

	before := one.RKey()
	bind.MW = one
	r.send(b, ib.SendWR{ID: 1, Opcode: uint32(uverbs.WRBindMW), Bind: bind})
	r.done(1)
	if one.RKey() == before {
		t.Errorf("the window of type 1 has its old key %#x", before)
	}
	r.send(a, write(2, one.RKey()))
	r.done(2)

	bind.MW, bind.RKey = two, two.RKey()&^0xff|uint32(byte(two.RKey()+1))
	r.send(b, ib.SendWR{ID: 3, Opcode: uint32(uverbs.WRBindMW), Bind: bind})
	r.done(3)
	r.send(a, write(4, bind.RKey))
	r.done(4)
	r.ok(b.Recv(5, nil))
	r.send(a, ib.SendWR{ID: 6, Opcode: uint32(uverbs.WRSendWithInv), Imm: bind.RKey})
	if c := r.done(5, 6)[5]; c.Imm != bind.RKey || uverbs.WCFlags(c.Flags) != uverbs.WCGRH|uverbs.WCWithInv {
		t.Errorf("invalidated: %+v, want key %#x", c, bind.RKey)
	}
	r.send(a, write(7, bind.RKey))
	if c := r.wait(1)[7]; uverbs.WCStatus(c.Status) != uverbs.WCRemAccessErr {
		t.Errorf("write through an invalidated window: %+v", c)
	}
}

func TestLiveRereg(t *testing.T) {
	r := newRig(t)
	m := must[ib.MR](t)(r.pd.RegMR(r.addr(0), 8, r.addr(0), 0))
	r.closeLater(m)
	err := m.Rereg(uint32(uverbs.ReregAccess), nil, 0, 0, 0, uint32(uverbs.AccessLocalWrite))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want success or ErrUnsupported", err)
	}
}

// TestLiveOpenClose checks that no descriptor leaks.
func TestLiveOpenClose(t *testing.T) {
	d, p := ib.Device{Name: live.Device(t)}, New()
	once := func() {
		x := must[ib.Context](t)(p.Open(d))
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	once()
	before := descriptors(t)
	for range 200 {
		once()
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	return len(must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd")))
}

// BenchmarkLiveSend measures half a round trip of 8 bytes between two polling goroutines, each with an open device of its own:
// the latency of ib_send_lat.
func BenchmarkLiveSend(b *testing.B) {
	left, right := newRig(b), newRig(b)
	p, q := left.qp(uverbs.QPTRC, nil), right.qp(uverbs.QPTRC, nil)
	left.connect(p, q, uverbs.QPTRC)
	right.connect(q, p, uverbs.QPTRC)
	for range 4 { // with fewer receives a message could arrive before a receive is posted
		left.ok(p.Recv(1, []ib.SGE{left.sge(half, 8)}))
		right.ok(q.Recv(1, []ib.SGE{right.sge(half, 8)}))
	}
	trips := (b.N/2 + batch) / batch // in batches: reading the clock is slow in a virtual machine
	done, took := make(chan error, 1), make([]time.Duration, trips)
	b.ResetTimer()
	go func() { done <- right.pingpong(q, make([]time.Duration, trips), false) }()
	if err := errors.Join(left.pingpong(p, took, true), <-done); err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[trips/2].Nanoseconds())/2/batch, "ns/median")
}

// batch is the number of round trips that are timed together.
const batch = 20

// pingpong alternately sends and receives, and stores the duration of each batch of round trips.
func (r *rig) pingpong(q ib.QP, took []time.Duration, first bool) error {
	n, last := batch*len(took), time.Now()
	wr := &ib.SendWR{Opcode: uint32(uverbs.WRSend), Inline: make([]byte, 8), Flags: uint32(uverbs.SendInline) | signaled}
	list, wc := []ib.SGE{r.sge(half, 8)}, make([]ib.WC, 8)
	sent, received := 0, 0
	if first {
		sent++
		if err := errors.Join(q.Post(wr), q.Ring()); err != nil {
			return err
		}
	}
	for done := 0; sent < n || received < n || done < n; {
		k, err := r.cq.Poll(wc)
		if err != nil {
			return err
		}
		for i := range wc[:k] {
			switch {
			case uverbs.WCStatus(wc[i].Status) != uverbs.WCSuccess:
				return fmt.Errorf("completion %+v", wc[i])
			case uverbs.WCOpcode(wc[i].Opcode)&uverbs.WCRecv == 0:
				done++
				continue
			}
			if received++; received%batch == 0 {
				now := time.Now()
				took[received/batch-1], last = now.Sub(last), now
			}
			if sent < n {
				sent++
				err = errors.Join(q.Post(wr), q.Ring())
			}
			if err := errors.Join(err, q.Recv(1, list)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestLiveAllocs counts the allocations of posts and polls on a device.
func TestLiveAllocs(t *testing.T) {
	r := newRig(t)
	p, q := r.pair(uverbs.QPTRC)
	wr := &ib.SendWR{Opcode: uint32(uverbs.WRSend), SGE: []ib.SGE{r.sge(0, 8)}, Flags: signaled}
	list, wc := []ib.SGE{r.sge(half, 8)}, make([]ib.WC, 8)
	var late atomic.Bool // waittest would allocate
	limit := time.AfterFunc(waittest.Limit, func() { late.Store(true) })
	defer limit.Stop()
	n := alloctest.Count(100, func() {
		if err := errors.Join(q.Recv(1, list), p.Post(wr), p.Ring()); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 2; {
			if late.Load() {
				t.Fatalf("%d of 2 completions within %v", got, waittest.Limit)
			}
			k, err := r.cq.Poll(wc)
			if err != nil {
				t.Fatal(err)
			}
			got += k
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a message, want 0", n)
	}
}
