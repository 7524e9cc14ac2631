package rxe

// Unsafe because the tests play the driver in memory that stands for a mapping: they write heads and read slots at their
// addresses.

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// page is a ring of slots of 2^log2 bytes, as the driver makes it.
func page(slots, log2 uint32) ([]byte, *rxe.QueueBuf) {
	words := make([]uint64, (uint32(headBytes)+slots<<log2)/8)
	head := (*rxe.QueueBuf)(unsafe.Pointer(&words[0]))
	head.Log2ElemSize, head.IndexMask = log2, slots-1
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8), head
}

func slot(mem []byte, head *rxe.QueueBuf, i uint32) []byte {
	at := uint32(headBytes) + (i&head.IndexMask)<<head.Log2ElemSize
	return mem[at : at+1<<head.Log2ElemSize]
}

// TestRingFull fills a ring, and goes round it many times with the driver one behind.
func TestRingFull(t *testing.T) {
	mem, head := page(8, 7)
	head.ProducerIndex, head.ConsumerIndex = 6, 6 // a ring may begin anywhere
	r, err := newRing(mem, recvFixed)
	if err != nil {
		t.Fatal(err)
	}
	q := RecvQueue{r}
	post := func(id uint64) error { return q.Recv(id, []ib.SGE{{Addr: id << 8, Len: 5, LKey: 7}, {Len: 6}}) }
	for id := range uint64(7) {
		if err := post(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := post(7); err != ib.ErrFull {
		t.Fatalf("the eighth of eight slots: %v", err)
	}
	for id := range uint64(100) {
		w := slot(mem, head, head.ConsumerIndex)
		dma := *(*rxe.DMAInfo)(unsafe.Pointer(&w[16]))
		if got := binary.NativeEndian.Uint64(w); got != id || dma.Length != 11 || dma.Resid != 11 || dma.NumSGE != 2 {
			t.Fatalf("slot %d has request %d, %+v", head.ConsumerIndex, got, dma)
		}
		if sge := *(*rxe.SGE)(unsafe.Pointer(&w[recvFixed])); sge != (rxe.SGE{Addr: id << 8, Length: 5, LKey: 7}) {
			t.Fatalf("request %d: %+v", id, sge)
		}
		atomic.StoreUint32(&head.ConsumerIndex, (head.ConsumerIndex+1)&head.IndexMask)
		if err := post(7 + id); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRingPublish sees that the driver is shown nothing before publish, and everything after it.
func TestRingPublish(t *testing.T) {
	mem, head := page(4, 9)
	r, err := newRing(mem, sendFixed)
	if err != nil {
		t.Fatal(err)
	}
	q := &qp{send: SendQueue{ring: r}}
	for i := range uint64(2) {
		wr := ib.SendWR{ID: i, Opcode: opWrite, Remote: 0x1000 + i, RKey: 9, SGE: []ib.SGE{{Addr: 1, Len: 2, LKey: 3}}}
		if err := q.Post(&wr); err != nil {
			t.Fatal(err)
		}
	}
	if head.ProducerIndex != 0 {
		t.Error("posted requests were shown before they were published")
	}
	q.send.Publish()
	if head.ProducerIndex != 2 {
		t.Errorf("producer index %d after two requests", head.ProducerIndex)
	}
	q.send.ring.filled()
	q.send.ring.rewind()
	if q.send.ring.next != 2 {
		t.Errorf("after rewind the next slot is %d", q.send.ring.next)
	}
	w := *(*rxe.SendWQE)(unsafe.Pointer(&slot(mem, head, 1)[0]))
	op := *(*rxe.RDMA)(unsafe.Pointer(&w.WR.Op))
	if w.WR.WRID != 1 || w.IOVA != 0x1001 || op != (rxe.RDMA{RemoteAddr: 0x1001, RKey: 9}) ||
		w.DMA.Length != 2 || w.DMA.NumSGE != 1 {
		t.Errorf("%+v, %+v", w, op)
	}
}

// TestPutSend looks at what the other operations write over a slot that is full of old bytes.
func TestPutSend(t *testing.T) {
	mem, head := page(4, 9)
	r, err := newRing(mem, sendFixed)
	if err != nil {
		t.Fatal(err)
	}
	put := func(wr *ib.SendWR) (rxe.SendWQE, []byte) {
		b := slot(mem, head, 0)
		for i := range b {
			b[i] = 0xa5
		}
		q := &qp{send: SendQueue{ring: r}}
		if err := q.Post(wr); err != nil {
			t.Fatal(err)
		}
		return *(*rxe.SendWQE)(unsafe.Pointer(&b[0])), b[sendFixed:]
	}
	w, rest := put(&ib.SendWR{Opcode: opSend, Flags: sendInline, Inline: []byte("inline")})
	if string(rest[:6]) != "inline" || w.DMA.Length != 6 || w.DMA.Resid != 6 ||
		w.DMA.CurSGE != 0 || w.DMA.SGEOffset != 0 || w.State != 0 {
		t.Errorf("inline: %+v, %q", w, rest[:6])
	}
	w, _ = put(&ib.SendWR{Opcode: opCompareSwap, Remote: 8, RKey: 1, Compare: 2, Swap: 3, SGE: []ib.SGE{{Len: 8}}})
	atomicOp := rxe.Atomic{RemoteAddr: 8, CompareAdd: 2, Swap: 3, RKey: 1}
	if op := *(*rxe.Atomic)(unsafe.Pointer(&w.WR.Op)); op != atomicOp || w.IOVA != 8 {
		t.Errorf("atomic: %+v", op)
	}
	w, _ = put(&ib.SendWR{Opcode: opSendImm, AH: &ah{num: 4}, QPN: 5, QKey: 6, Imm: 7})
	if op := *(*rxe.UD)(unsafe.Pointer(&w.WR.Op)); op != (rxe.UD{RemoteQPN: 5, RemoteQKey: 6, AHNum: 4}) || w.WR.Ex != 7 {
		t.Errorf("datagram: %+v", op)
	}
	region, window := &mr{}, &mw{}
	region.keys.Store(pack(11, 12))
	window.rkey.Store(13)
	w, _ = put(&ib.SendWR{Opcode: opBindMW, Bind: ib.Bind{MW: window, MR: region, RKey: 14, Addr: 15, Length: 16, Access: 2}})
	bind := rxe.MW{Addr: 15, Length: 16, MRLKey: 11, MWRKey: 13, RKey: 14, Access: 2}
	if op := *(*rxe.MW)(unsafe.Pointer(&w.WR.Op)); op != bind {
		t.Errorf("bind: %+v", op)
	}
}

// TestPoll polls in pieces of all sizes, across the end of the ring.
func TestPoll(t *testing.T) {
	mem, head := page(8, 6)
	r, err := newRing(mem, wcBytes)
	if err != nil {
		t.Fatal(err)
	}
	q := Completions{r}
	var put, got uint64
	for piece := range 40 {
		for (head.ProducerIndex+1)&head.IndexMask != head.ConsumerIndex {
			b := slot(mem, head, head.ProducerIndex)
			*(*ib.WC)(unsafe.Pointer(&b[0])) = ib.WC{ID: put, Flags: kernelInvalidate | 1}
			put++
			atomic.StoreUint32(&head.ProducerIndex, (head.ProducerIndex+1)&head.IndexMask)
		}
		wc := make([]ib.WC, piece%9)
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
	for name, spoil := range map[string]func(mem []byte, head *rxe.QueueBuf) []byte{
		"no head":            func(mem []byte, _ *rxe.QueueBuf) []byte { return mem[:headBytes-1] },
		"nothing":            func([]byte, *rxe.QueueBuf) []byte { return nil },
		"slot missing":       func(mem []byte, _ *rxe.QueueBuf) []byte { return mem[:len(mem)-1] },
		"mask with a hole":   func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 5; return mem },
		"mask of no slots":   func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 0; return mem },
		"mask of all":        func(mem []byte, h *rxe.QueueBuf) []byte { h.IndexMask = 1<<32 - 1; return mem },
		"slots too small":    func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 5; return mem },
		"slots too large":    func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 8; return mem },
		"a shift over words": func(mem []byte, h *rxe.QueueBuf) []byte { h.Log2ElemSize = 64 + 7; return mem },
	} {
		mem, head := page(8, 7)
		if _, err := newRing(spoil(mem, head), recvFixed); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRingWildIndices has the driver write nonsense into its index: nothing outside of the ring is touched.
func TestRingWildIndices(t *testing.T) {
	mem, head := page(4, 7)
	r, err := newRing(mem, recvFixed)
	if err != nil {
		t.Fatal(err)
	}
	recv, done := RecvQueue{r}, Completions{r}
	for i := range uint32(1000) {
		atomic.StoreUint32(&head.ConsumerIndex, i*0x9e3779b9)
		if err := recv.Recv(uint64(i), nil); err != nil && err != ib.ErrFull {
			t.Fatal(err)
		}
		atomic.StoreUint32(&head.ProducerIndex, i*0x85ebca6b)
		done.Poll(make([]ib.WC, 2))
	}
}

// FuzzRing lays rings over whatever a driver might say.
func FuzzRing(f *testing.F) {
	f.Add(uint32(7), uint32(3), uint32(0), uint32(0), uint16(1024), uint8(9))
	f.Add(uint32(63), uint32(1<<32-1), uint32(5), uint32(1<<31), uint16(0), uint8(200))
	f.Fuzz(func(t *testing.T, log2, mask, producer, consumer uint32, size uint16, posts uint8) {
		words := make([]uint64, int(headBytes)/8+int(size)/8)
		head := (*rxe.QueueBuf)(unsafe.Pointer(&words[0]))
		head.Log2ElemSize, head.IndexMask, head.ProducerIndex, head.ConsumerIndex = log2, mask, producer, consumer
		r, err := newRing(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8), recvFixed)
		if err != nil {
			return
		}
		sge := make([]ib.SGE, r.room(recvFixed)/sgeBytes)
		recv, done := RecvQueue{r}, Completions{r}
		for i := range posts {
			if err := recv.Recv(uint64(i), sge); err != nil && err != ib.ErrFull {
				t.Fatal(err)
			}
		}
		if r.room(wcBytes) < 1<<16 {
			done.Poll(make([]ib.WC, 3))
		}
	})
}

func TestRingAllocs(t *testing.T) {
	mem, head := page(16, 9)
	r, err := newRing(mem, sendFixed)
	if err != nil {
		t.Fatal(err)
	}
	q, done := &qp{send: SendQueue{ring: r}, RecvQueue: RecvQueue{r}}, Completions{r}
	wr := &ib.SendWR{Opcode: opWrite, SGE: make([]ib.SGE, 2)}
	wc := make([]ib.WC, 4)
	calls := map[string]func(){
		"Post":    func() { q.Post(wr); atomic.StoreUint32(&head.ConsumerIndex, q.send.ring.next) },
		"Publish": q.send.Publish,
		"Put": func() {
			q.RecvQueue.Put(1, wr.SGE)
			atomic.StoreUint32(&head.ConsumerIndex, q.RecvQueue.next)
		},
		"Take": func() { done.Take(wc) },
	}
	for name, call := range calls {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkPost is one request and its share of a publish per 16.
func BenchmarkPost(b *testing.B) {
	mem, head := page(64, 9)
	r, err := newRing(mem, sendFixed)
	if err != nil {
		b.Fatal(err)
	}
	q := &qp{send: SendQueue{ring: r}}
	wr := &ib.SendWR{Opcode: opWrite, SGE: []ib.SGE{{Addr: 1, Len: 2, LKey: 3}}}
	for i := 0; b.Loop(); i++ {
		q.Post(wr)
		if i%16 == 0 {
			q.send.Publish()
			atomic.StoreUint32(&head.ConsumerIndex, q.send.ring.next)
		}
	}
}
