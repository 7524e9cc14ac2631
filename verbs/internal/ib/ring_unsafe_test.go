package ib

// Unsafe because the tests simulate the driver in memory that takes the place of a mapping: they write heads and read slots at
// their addresses.

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	"github.com/ibrun/ibrun/internal/alloctest"
)

// page returns the memory of a ring with slots of 2^log2 bytes, as the driver creates it, and its head.
func page(slots, log2 uint32) ([]byte, *rxe.QueueBuf) {
	words := make([]uint64, (uint32(ringHeadBytes)+slots<<log2)/8)
	head := (*rxe.QueueBuf)(unsafe.Pointer(&words[0]))
	head.Log2ElemSize, head.IndexMask = log2, slots-1
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8), head
}

func slot(mem []byte, head *rxe.QueueBuf, i uint32) []byte {
	at := uint32(ringHeadBytes) + (i&head.IndexMask)<<head.Log2ElemSize
	return mem[at : at+1<<head.Log2ElemSize]
}

// TestRingFull fills a ring, and then wraps around many times while the driver is one slot behind.
func TestRingFull(t *testing.T) {
	mem, head := page(8, 7)
	head.ProducerIndex, head.ConsumerIndex = 6, 6 // a ring may begin at any index
	r, err := newRing(mem, recvFixedBytes)
	if err != nil {
		t.Fatal(err)
	}
	q := RecvRing{r}
	post := func(id uint64) bool { return q.Post(id, []SGE{{Addr: id << 8, Len: 5, LKey: 7}, {Len: 6}}) }
	for id := range uint64(7) {
		if !post(id) {
			t.Fatalf("receive %d did not fit into 8 slots", id)
		}
	}
	if post(7) {
		t.Fatal("all 8 of 8 slots were filled; one must stay free")
	}
	for id := range uint64(100) {
		w := slot(mem, head, head.ConsumerIndex)
		dma := *(*rxe.DMAInfo)(unsafe.Pointer(&w[16]))
		if got := binary.NativeEndian.Uint64(w); got != id || dma.Length != 11 || dma.Resid != 11 || dma.NumSGE != 2 {
			t.Fatalf("slot %d has request %d, %+v", head.ConsumerIndex, got, dma)
		}
		if sge := *(*rxe.SGE)(unsafe.Pointer(&w[recvFixedBytes])); sge != (rxe.SGE{Addr: id << 8, Length: 5, LKey: 7}) {
			t.Fatalf("request %d: %+v", id, sge)
		}
		atomic.StoreUint32(&head.ConsumerIndex, (head.ConsumerIndex+1)&head.IndexMask)
		if !post(7 + id) {
			t.Fatalf("receive %d was refused after the driver had consumed a slot", 7+id)
		}
	}
}

// TestRingPublish checks that posted requests become visible to the driver with Publish, and not earlier.
func TestRingPublish(t *testing.T) {
	mem, head := page(4, 9)
	r, err := newRing(mem, sendFixedBytes)
	if err != nil {
		t.Fatal(err)
	}
	q := &SendRing{ring: r}
	for i := range uint64(2) {
		wr := SendWR{ID: i, Opcode: opWrite, Remote: 0x1000 + i, RKey: 9, SGE: []SGE{{Addr: 1, Len: 2, LKey: 3}}}
		if err := q.Post(&wr); err != nil {
			t.Fatal(err)
		}
	}
	if head.ProducerIndex != 0 {
		t.Error("posted requests were visible to the driver before Publish")
	}
	q.Publish()
	if head.ProducerIndex != 2 {
		t.Errorf("producer index %d after two requests", head.ProducerIndex)
	}
	q.advance()
	q.Rewind()
	if q.next != 2 {
		t.Errorf("after rewind the next slot is %d", q.next)
	}
	w := *(*rxe.SendWQE)(unsafe.Pointer(&slot(mem, head, 1)[0]))
	op := *(*rxe.RDMA)(unsafe.Pointer(&w.WR.Op))
	if w.WR.WRID != 1 || w.IOVA != 0x1001 || op != (rxe.RDMA{RemoteAddr: 0x1001, RKey: 9}) ||
		w.DMA.Length != 2 || w.DMA.NumSGE != 1 {
		t.Errorf("%+v, %+v", w, op)
	}
}

// TestPutSend checks what the other operations write into a slot that is full of old bytes.
func TestPutSend(t *testing.T) {
	mem, head := page(4, 9)
	r, err := newRing(mem, sendFixedBytes)
	if err != nil {
		t.Fatal(err)
	}
	put := func(wr *SendWR) (rxe.SendWQE, []byte) {
		b := slot(mem, head, 0)
		for i := range b {
			b[i] = 0xa5
		}
		q := &SendRing{ring: r}
		if err := q.Post(wr); err != nil {
			t.Fatal(err)
		}
		return *(*rxe.SendWQE)(unsafe.Pointer(&b[0])), b[sendFixedBytes:]
	}
	w, rest := put(&SendWR{Opcode: opSend, Flags: sendInline, Inline: []byte("inline")})
	if string(rest[:6]) != "inline" || w.DMA.Length != 6 || w.DMA.Resid != 6 ||
		w.DMA.CurSGE != 0 || w.DMA.SGEOffset != 0 || w.State != 0 {
		t.Errorf("inline: %+v, %q", w, rest[:6])
	}
	w, _ = put(&SendWR{Opcode: opCompareSwap, Remote: 8, RKey: 1, Compare: 2, Swap: 3, SGE: []SGE{{Len: 8}}})
	atomicOp := rxe.Atomic{RemoteAddr: 8, CompareAdd: 2, Swap: 3, RKey: 1}
	if op := *(*rxe.Atomic)(unsafe.Pointer(&w.WR.Op)); op != atomicOp || w.IOVA != 8 {
		t.Errorf("atomic: %+v", op)
	}
	w, _ = put(&SendWR{Opcode: opSendImm, AH: fakeAH{}, AHNum: 4, QPN: 5, QKey: 6, Imm: 7})
	if op := *(*rxe.UD)(unsafe.Pointer(&w.WR.Op)); op != (rxe.UD{RemoteQPN: 5, RemoteQKey: 6, AHNum: 4}) || w.WR.Ex != 7 {
		t.Errorf("datagram: %+v", op)
	}
	region, window := fakeMR{}, &fakeMW{rkey: 13}
	w, _ = put(&SendWR{Opcode: opBindMW, Bind: Bind{MW: window, MR: region, RKey: 14, Addr: 15, Length: 16, Access: 2}})
	bind := rxe.MW{Addr: 15, Length: 16, MRLKey: 11, MWRKey: 13, RKey: 14, Access: 2}
	if op := *(*rxe.MW)(unsafe.Pointer(&w.WR.Op)); op != bind {
		t.Errorf("bind: %+v", op)
	}
	if window.rkey != 14 {
		t.Errorf("after the bind the window has the key %d, want 14", window.rkey)
	}
}

type fakeAH struct{ AH }

type fakeMR struct{ MR }

func (fakeMR) Keys() (lkey, rkey uint32) { return 11, 12 }

type fakeMW struct {
	MW
	rkey uint32
}

func (w *fakeMW) RKey() uint32       { return w.rkey }
func (w *fakeMW) SetRKey(key uint32) { w.rkey = key }

// TestPoll polls with slices of all lengths, also across the end of the ring.
func TestPoll(t *testing.T) {
	mem, head := page(8, 6)
	r, err := newRing(mem, wcBytes)
	if err != nil {
		t.Fatal(err)
	}
	q := CompletionRing{r}
	var put, got uint64
	for length := range 40 {
		for (head.ProducerIndex+1)&head.IndexMask != head.ConsumerIndex {
			b := slot(mem, head, head.ProducerIndex)
			*(*WC)(unsafe.Pointer(&b[0])) = WC{ID: put, Flags: kernelInvalidate | 1}
			put++
			atomic.StoreUint32(&head.ProducerIndex, (head.ProducerIndex+1)&head.IndexMask)
		}
		wc := make([]WC, length%9)
		n, _ := q.Poll(wc)
		if n != min(len(wc), 7) {
			t.Fatalf("%d of 7 completions into %d", n, len(wc))
		}
		for _, c := range wc[:n] {
			if c.ID != got || c.Flags != userInvalidate|1 {
				t.Fatalf("completion %d is %+v", got, c)
			}
			got++
		}
	}
}

func TestRingRefused(t *testing.T) {
	for name, corrupt := range map[string]func(mem []byte, head *rxe.QueueBuf) []byte{
		"no head":              func(mem []byte, _ *rxe.QueueBuf) []byte { return mem[:ringHeadBytes-1] },
		"empty mapping":        func([]byte, *rxe.QueueBuf) []byte { return nil },
		"slot missing":         func(mem []byte, _ *rxe.QueueBuf) []byte { return mem[:len(mem)-1] },
		"mask with a hole":     func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 5; return mem },
		"mask of one slot":     func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 0; return mem },
		"mask of all ones":     func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 1<<32 - 1; return mem },
		"slots too small":      func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 5; return mem },
		"slots too large":      func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 8; return mem },
		"shift beyond 64 bits": func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 64 + 7; return mem },
	} {
		mem, head := page(8, 7)
		if _, err := newRing(corrupt(mem, head), recvFixedBytes); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRingWildIndices stores random numbers in the indices of the driver. Nothing outside the ring may be accessed.
func TestRingWildIndices(t *testing.T) {
	mem, head := page(4, 7)
	r, err := newRing(mem, recvFixedBytes)
	if err != nil {
		t.Fatal(err)
	}
	recv, done := RecvRing{r}, CompletionRing{r}
	for i := range uint32(1000) {
		atomic.StoreUint32(&head.ConsumerIndex, i*0x9e3779b9)
		recv.Post(uint64(i), nil)
		recv.PostList(make([]RecvWR, i%8))
		atomic.StoreUint32(&head.ProducerIndex, i*0x85ebca6b)
		done.Poll(make([]WC, 2))
	}
}

// FuzzRing interprets rings with arbitrary heads and indices.
func FuzzRing(f *testing.F) {
	f.Add(uint32(7), uint32(3), uint32(0), uint32(0), uint16(1024), uint8(9))
	f.Add(uint32(63), uint32(1<<32-1), uint32(5), uint32(1<<31), uint16(0), uint8(200))
	f.Fuzz(func(t *testing.T, log2, mask, producer, consumer uint32, size uint16, posts uint8) {
		words := make([]uint64, int(ringHeadBytes)/8+int(size)/8)
		head := (*rxe.QueueBuf)(unsafe.Pointer(&words[0]))
		head.Log2ElemSize, head.IndexMask, head.ProducerIndex, head.ConsumerIndex = log2, mask, producer, consumer
		r, err := newRing(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8), recvFixedBytes)
		if err != nil {
			return
		}
		recv, done := RecvRing{r}, CompletionRing{r}
		sge := make([]SGE, recv.MaxSGE())
		for i := range posts {
			recv.Post(uint64(i), sge)
		}
		if r.variableBytes(wcBytes) < 1<<16 {
			done.Poll(make([]WC, 3))
		}
	})
}

func TestRingAllocs(t *testing.T) {
	mem, head := page(16, 9)
	r, err := newRing(mem, sendFixedBytes)
	if err != nil {
		t.Fatal(err)
	}
	q, recv, done := &SendRing{ring: r}, &RecvRing{r}, CompletionRing{r}
	wr := &SendWR{Opcode: opWrite, SGE: make([]SGE, 2)}
	wc, list := make([]WC, 4), make([]RecvWR, 3)
	calls := map[string]func(){
		"Post":    func() { q.Post(wr); atomic.StoreUint32(&head.ConsumerIndex, q.next) },
		"Publish": q.Publish,
		"RecvRing.PostList": func() {
			recv.PostList(list)
			atomic.StoreUint32(&head.ConsumerIndex, recv.next)
		},
		"RecvRing.Post": func() {
			recv.Post(1, wr.SGE)
			atomic.StoreUint32(&head.ConsumerIndex, recv.next)
		},
		"Poll": func() { done.Poll(wc) },
	}
	for name, call := range calls {
		if n := alloctest.Count(100, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkPost measures one request and a sixteenth of a publish.
func BenchmarkPost(b *testing.B) {
	mem, head := page(64, 9)
	r, err := newRing(mem, sendFixedBytes)
	if err != nil {
		b.Fatal(err)
	}
	q := &SendRing{ring: r}
	wr := &SendWR{Opcode: opWrite, SGE: []SGE{{Addr: 1, Len: 2, LKey: 3}}}
	for i := 0; b.Loop(); i++ {
		q.Post(wr)
		if i%16 == 0 {
			q.Publish()
			atomic.StoreUint32(&head.ConsumerIndex, q.next)
		}
	}
}
