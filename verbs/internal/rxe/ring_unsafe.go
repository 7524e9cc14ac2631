package rxe

// Unsafe because rings lie in memory that the kernel maps, and slots are the kernel's structs. Every slot is found by a
// masked index in a ring whose extent was checked against the mapping.

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// ring is one side of a ring. The zero ring has no room, as that of a pair without a receive queue.
type ring struct {
	mem  []byte
	data unsafe.Pointer // first slot
	mask uint32
	log2 uint32 // of the bytes from slot to slot

	producer, consumer *uint32 // the indices in mem

	next uint32 // our own index, ahead of what was published
	seen uint32 // the driver's index when we last looked
}

const (
	headBytes   = unsafe.Sizeof(rxe.QueueBuf{})
	sendFixed   = uint32(unsafe.Sizeof(rxe.SendWQE{}))
	recvFixed   = uint32(unsafe.Sizeof(rxe.RecvWQE{}))
	sgeBytes    = uint32(unsafe.Sizeof(rxe.SGE{}))
	wcBytes     = uint32(unsafe.Sizeof(ib.WC{}))
	maxLog2Size = 16
)

// The driver writes flags of completions as the kernel counts them, which differ from those of the interface in one.
const (
	kernelInvalidate = 1 << 2 // IB_WC_WITH_INVALIDATE
	userInvalidate   = uint32(abi.WCWithInv)
)

// newRing lays a ring over a mapping, whose slots must have room for fixed bytes.
func newRing(mem []byte, fixed uint32) (ring, error) {
	bad := func(format string, args ...any) (ring, error) {
		return ring{}, fmt.Errorf("queue of the driver: %s: %w", fmt.Sprintf(format, args...), syscall.EPROTO)
	}
	if uintptr(len(mem)) < headBytes || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return bad("%d bytes at %p", len(mem), unsafe.SliceData(mem))
	}
	head := (*rxe.QueueBuf)(unsafe.Pointer(unsafe.SliceData(mem)))
	r := ring{mem: mem, mask: head.IndexMask, log2: head.Log2ElemSize,
		producer: &head.ProducerIndex, consumer: &head.ConsumerIndex}
	switch {
	case r.log2 > maxLog2Size || 1<<r.log2 < fixed:
		return bad("slots of 2^%d bytes, and a request has %d", r.log2, fixed)
	case r.mask == 0 || r.mask&(r.mask+1) != 0:
		return bad("index mask %#x", r.mask)
	case uint64(headBytes)+(uint64(r.mask)+1)<<r.log2 > uint64(len(mem)):
		return bad("%d slots of 2^%d bytes in %d", uint64(r.mask)+1, r.log2, len(mem))
	}
	r.data = unsafe.Add(unsafe.Pointer(head), headBytes)
	r.next = atomic.LoadUint32(r.producer) & r.mask
	r.seen = atomic.LoadUint32(r.consumer) & r.mask
	return r, nil
}

// capacity is how many slots can be in use: one stays free, to tell full from empty.
func (r *ring) capacity() uint32 { return r.mask }

// room is how many bytes follow the fixed part in a slot.
func (r *ring) room(fixed uint32) uint32 {
	if r.mem == nil {
		return 0
	}
	return 1<<r.log2 - fixed
}

// indices are the two words in the mapping.
func (r *ring) indices() *ib.Indices { return (*ib.Indices)(unsafe.Pointer(r.producer)) }

// A compile error where the kernel's indices are not as far apart as the seam's.
const (
	apart = unsafe.Offsetof(rxe.QueueBuf{}.ConsumerIndex) - unsafe.Offsetof(rxe.QueueBuf{}.ProducerIndex)
	_     = -(apart ^ unsafe.Offsetof(ib.Indices{}.Consumer))
)

// free is the slot that we fill next, or nil when there is none.
func (r *ring) free() unsafe.Pointer {
	if (r.next+1)&r.mask == r.seen {
		if r.mem == nil {
			return nil
		}
		r.seen = atomic.LoadUint32(r.consumer) & r.mask // pairs with the driver's release when it is done with a slot
		if (r.next+1)&r.mask == r.seen {
			return nil
		}
	}
	return unsafe.Add(r.data, uintptr(r.next)<<r.log2)
}

// filled counts the slot of free as ours no more, as of the next publish.
func (r *ring) filled() { r.next = (r.next + 1) & r.mask }

// publish hands all that was filled to the driver, whose acquire of the index it pairs with.
func (r *ring) publish() { atomic.StoreUint32(r.producer, r.next) }

// rewind takes back what was not published.
func (r *ring) rewind() {
	if r.mem != nil {
		r.next = atomic.LoadUint32(r.producer) & r.mask
	}
}

// Completions is a ring that the driver fills with completions. Who knows that a completion queue is one of these polls it with
// several calls less than by the seam.
type Completions struct{ ring }

// Poll takes completions.
func (r *Completions) Poll(wc []ib.WC) (int, error) {
	n, _ := r.Take(wc)
	return n, nil
}

// Take is Poll, and tells besides whether there are failed ones among them.
func (r *Completions) Take(wc []ib.WC) (n int, failed bool) {
	at := atomic.LoadUint32(r.consumer) & r.mask // only we write it
	have := (atomic.LoadUint32(r.producer) - at) & r.mask
	status := uint32(0)
	for n < len(wc) && have > 0 {
		w := &wc[n]
		*w = *(*ib.WC)(unsafe.Add(r.data, uintptr(at)<<r.log2))
		if w.Flags&kernelInvalidate != 0 {
			w.Flags = w.Flags&^kernelInvalidate | userInvalidate
		}
		status |= w.Status
		at = (at + 1) & r.mask
		have--
		n++
	}
	if n > 0 {
		atomic.StoreUint32(r.consumer, at) // the driver may reuse the slots from here on
	}
	return n, status != 0
}

// putList fills a slot of a send queue with a request and a list of so many bytes.
func (r *ring) putList(slot unsafe.Pointer, wr *ib.SendWR, sge []ib.SGE, total uint32) {
	w := (*rxe.SendWQE)(slot)
	begin(w, wr)
	if wr.Opcode != opSend || wr.AH != nil {
		putOp(w, wr)
	}
	if list := (*ib.SGE)(unsafe.Add(slot, sendFixed)); len(sge) == 1 { // most have one, and copy is a call
		*list = sge[0]
	} else {
		copy(unsafe.Slice(list, len(sge)), sge)
	}
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = total, total, uint32(len(sge))
}

// putInline fills a slot of a send queue with a request and bytes.
func (r *ring) putInline(slot unsafe.Pointer, wr *ib.SendWR, data []byte) {
	w := (*rxe.SendWQE)(slot)
	begin(w, wr)
	if wr.Opcode != opSend || wr.AH != nil {
		putOp(w, wr)
	}
	n := copy(unsafe.Slice((*byte)(unsafe.Add(slot, sendFixed)), len(data)), data)
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = uint32(n), uint32(n), 1
}

// begin fills in what all requests have. With the call of putOp it would not be inlined.
func begin(w *rxe.SendWQE, wr *ib.SendWR) {
	*w = rxe.SendWQE{}
	w.WR.WRID, w.WR.Opcode, w.WR.SendFlags, w.WR.Ex = wr.ID, wr.Opcode, wr.Flags, wr.Imm
}

// putOp fills in the part that depends on the operation.
func putOp(w *rxe.SendWQE, wr *ib.SendWR) {
	op := unsafe.Pointer(&w.WR.Op)
	switch wr.Opcode {
	case opWrite, opWriteImm, opRead:
		*(*rxe.RDMA)(op) = rxe.RDMA{RemoteAddr: wr.Remote, RKey: wr.RKey}
		w.IOVA = wr.Remote
	case opCompareSwap, opFetchAdd:
		*(*rxe.Atomic)(op) = rxe.Atomic{RemoteAddr: wr.Remote, CompareAdd: wr.Compare, Swap: wr.Swap, RKey: wr.RKey}
		w.IOVA = wr.Remote
	case opBindMW:
		mw, mr := wr.Bind.MW.(*mw), wr.Bind.MR.(*mr)
		lkey, _ := mr.Keys()
		*(*rxe.MW)(op) = rxe.MW{Addr: wr.Bind.Addr, Length: wr.Bind.Length, MRLKey: lkey, MWRKey: mw.RKey(),
			RKey: wr.Bind.RKey, Access: wr.Bind.Access}
		mw.rkey.Store(wr.Bind.RKey)
	case opSend, opSendImm:
		if a, ok := wr.AH.(*ah); ok {
			*(*rxe.UD)(op) = rxe.UD{RemoteQPN: wr.QPN, RemoteQKey: wr.QKey, PKeyIndex: wr.PKeyIndex, AHNum: a.num}
		}
	}
}

// RecvQueue is the ring of a receive queue, shared or not. Who knows that it is one of these posts what has not been copied for
// it, with several calls less than by the seam.
type RecvQueue struct{ ring }

// Recv queues a receive.
func (r *RecvQueue) Recv(id uint64, sge []ib.SGE) error {
	if !r.Put(id, sge) {
		return ib.ErrFull
	}
	return nil
}

// Put is Recv. It reports false if the queue is full.
func (r *RecvQueue) Put(id uint64, sge []ib.SGE) bool {
	slot := r.free()
	if slot == nil {
		return false
	}
	w := (*rxe.RecvWQE)(slot)
	*w = rxe.RecvWQE{WRID: id}
	list, total := unsafe.Slice((*ib.SGE)(unsafe.Add(slot, recvFixed)), len(sge)), uint32(0)
	for i := range sge {
		list[i] = sge[i]
		total += sge[i].Len
	}
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = total, total, uint32(len(sge))
	r.filled()
	r.publish()
	return true
}

// bytesOf is the memory of a kernel struct, for answers of the driver.
func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }
