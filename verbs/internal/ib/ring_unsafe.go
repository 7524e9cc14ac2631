package ib

// Unsafe because rings lie in memory that the kernel maps, and slots are structs of the kernel. Every slot is found by a
// masked index in a ring whose size was checked against the mapping.

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// ring is the process's side of a queue that it shares with the rxe driver. Each side writes one index and reads the other's.
// The slots before an index are written before the index is stored, and read after it is loaded: sync/atomic here pairs with
// smp_store_release and smp_load_acquire in the kernel's rxe_queue.h. The zero ring is always full.
type ring struct {
	mem  []byte
	data unsafe.Pointer // first slot
	mask uint32         // number of slots - 1
	log2 uint32         // log2 of the bytes from one slot to the next

	producer, consumer *uint32 // the indices in mem

	next uint32 // index of the next slot that this side fills, ahead of the published index
	seen uint32 // the driver's index as of the last time it was loaded
}

const (
	ringHeadBytes  = unsafe.Sizeof(rxe.QueueBuf{})
	sendFixedBytes = uint32(unsafe.Sizeof(rxe.SendWQE{}))
	recvFixedBytes = uint32(unsafe.Sizeof(rxe.RecvWQE{}))
	sgeBytes       = uint32(unsafe.Sizeof(rxe.SGE{}))
	wcBytes        = uint32(unsafe.Sizeof(WC{}))
	maxLog2Slot    = 16
)

// The driver writes completion flags with the kernel's internal values. One of them differs from the value of the user API.
const (
	kernelInvalidate = 1 << 2 // IB_WC_WITH_INVALIDATE
	userInvalidate   = uint32(abi.WCWithInv)
)

// newRing interprets a mapping as a ring whose slots have at least fixed bytes. It checks everything that the driver wrote
// into the head, so that no mistake of the driver leads outside the mapping.
func newRing(mem []byte, fixed uint32) (ring, error) {
	bad := func(format string, args ...any) (ring, error) {
		return ring{}, fmt.Errorf("invalid queue mapped by the driver: %s: %w", fmt.Sprintf(format, args...), syscall.EPROTO)
	}
	if uintptr(len(mem)) < ringHeadBytes || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return bad("%d bytes at %p", len(mem), unsafe.SliceData(mem))
	}
	head := (*rxe.QueueBuf)(unsafe.Pointer(unsafe.SliceData(mem)))
	r := ring{mem: mem, mask: head.IndexMask, log2: head.Log2ElemSize,
		producer: &head.ProducerIndex, consumer: &head.ConsumerIndex}
	switch {
	case r.log2 > maxLog2Slot || 1<<r.log2 < fixed:
		return bad("slots have 2^%d bytes, a request needs %d", r.log2, fixed)
	case r.mask == 0 || r.mask&(r.mask+1) != 0:
		return bad("index mask %#x", r.mask)
	case uint64(ringHeadBytes)+(uint64(r.mask)+1)<<r.log2 > uint64(len(mem)):
		return bad("%d slots of 2^%d bytes in %d bytes", uint64(r.mask)+1, r.log2, len(mem))
	}
	r.data = unsafe.Add(unsafe.Pointer(head), ringHeadBytes)
	r.next = atomic.LoadUint32(r.producer) & r.mask
	r.seen = atomic.LoadUint32(r.consumer) & r.mask
	return r, nil
}

// Capacity returns how many slots can be in use. One slot stays free, so that a full ring differs from an empty one.
func (r *ring) Capacity() uint32 { return r.mask }

// Memory returns the mapping that the ring lies in, or nil.
func (r *ring) Memory() []byte { return r.mem }

// Detach returns the mapping, or nil, and makes the ring a zero ring, which refuses every request.
func (r *ring) Detach() []byte {
	mem := r.mem
	*r = ring{}
	return mem
}

// variableBytes returns how many bytes follow the fixed part of a slot.
func (r *ring) variableBytes(fixed uint32) uint32 {
	if r.mem == nil {
		return 0
	}
	return 1<<r.log2 - fixed
}

// nextFree returns the slot to fill next, or nil if the ring is full.
func (r *ring) nextFree() unsafe.Pointer {
	if (r.next+1)&r.mask == r.seen {
		if r.mem == nil {
			return nil
		}
		r.seen = atomic.LoadUint32(r.consumer) & r.mask // pairs with the driver's release after it has read a slot
		if (r.next+1)&r.mask == r.seen {
			return nil
		}
	}
	return unsafe.Add(r.data, uintptr(r.next)<<r.log2)
}

// advance marks the slot of nextFree as filled. The driver may read it after the next publish.
func (r *ring) advance() { r.next = (r.next + 1) & r.mask }

// publish makes all filled slots visible to the driver. The store pairs with the driver's acquire of the index.
func (r *ring) publish() { atomic.StoreUint32(r.producer, r.next) }

// CompletionRing is a completion queue that the driver fills. Poll must be called by one goroutine at a time.
type CompletionRing struct{ ring }

// NewCompletionRing returns the completion queue in a mapping of the driver.
func NewCompletionRing(mem []byte) (CompletionRing, error) {
	r, err := newRing(mem, wcBytes)
	return CompletionRing{r}, err
}

// Poll takes up to len(wc) completions. It returns their number, and whether one of them has failed.
func (r *CompletionRing) Poll(wc []WC) (n int, failed bool) {
	at := atomic.LoadUint32(r.consumer) & r.mask // written by Poll only
	have := (atomic.LoadUint32(r.producer) - at) & r.mask
	status := uint32(0)
	for n < len(wc) && have > 0 {
		w := &wc[n]
		*w = *(*WC)(unsafe.Add(r.data, uintptr(at)<<r.log2))
		if w.Flags&kernelInvalidate != 0 {
			w.Flags = w.Flags&^kernelInvalidate | userInvalidate
		}
		status |= w.Status
		at = (at + 1) & r.mask
		have--
		n++
	}
	if n > 0 {
		atomic.StoreUint32(r.consumer, at) // from here on the driver may reuse the slots
	}
	return n, status != 0
}

// Indices returns the two indices in the mapping. They are equal exactly while the queue is empty. They may be read without a
// lock as long as the CQ is reachable, even during and after Close and Resize. After Close and Resize their values have no
// meaning.
func (r *CompletionRing) Indices() *Indices { return (*Indices)(unsafe.Pointer(r.producer)) }

// Indices are the producer and consumer index of a CompletionRing, at the distance that rxe gives them. An empty poll reads
// both. One pointer for both saves it a third of its time.
type Indices struct {
	Producer uint32
	_        [31]uint32
	Consumer uint32
}

// A compile error if the distance of the kernel's indices differs from that in Indices.
const (
	indexDistance = unsafe.Offsetof(rxe.QueueBuf{}.ConsumerIndex) - unsafe.Offsetof(rxe.QueueBuf{}.ProducerIndex)
	_             = -(indexDistance ^ unsafe.Offsetof(Indices{}.Consumer))
)

// RecvRing is the receive queue of a queue pair, or a shared receive queue. Post must be called by one goroutine at a time.
type RecvRing struct{ ring }

// NewRecvRing returns the receive queue in a mapping of the driver.
func NewRecvRing(mem []byte) (RecvRing, error) {
	r, err := newRing(mem, recvFixedBytes)
	return RecvRing{r}, err
}

// MaxSGE returns how many entries of a scatter list fit into a slot.
func (r *RecvRing) MaxSGE() uint32 { return r.variableBytes(recvFixedBytes) / sgeBytes }

// PostList queues receives, which are visible to the driver when PostList returns. It returns how many of them, the first ones,
// were queued: there is no room for the others.
func (r *RecvRing) PostList(list []RecvWR) int {
	for i := range list {
		slot := r.nextFree()
		if slot == nil {
			list = list[:i]
			break
		}
		w, n := (*rxe.RecvWQE)(slot), list[i].SGE.Len
		*w = rxe.RecvWQE{WRID: list[i].ID}
		*(*SGE)(unsafe.Add(slot, recvFixedBytes)) = list[i].SGE
		w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = n, n, 1
		r.advance()
	}
	if len(list) > 0 {
		r.publish()
	}
	return len(list)
}

// Post queues a receive, which is visible to the driver immediately. It returns false if the queue is full.
func (r *RecvRing) Post(id uint64, sge []SGE) bool {
	slot := r.nextFree()
	if slot == nil {
		return false
	}
	w := (*rxe.RecvWQE)(slot)
	*w = rxe.RecvWQE{WRID: id}
	list, total := unsafe.Slice((*SGE)(unsafe.Add(slot, recvFixedBytes)), len(sge)), uint32(0)
	for i := range sge {
		list[i] = sge[i]
		total += sge[i].Len
	}
	w.DMA.Length, w.DMA.Resid, w.DMA.NumSGE = total, total, uint32(len(sge))
	r.advance()
	r.publish()
	return true
}
