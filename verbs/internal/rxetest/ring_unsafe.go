//go:build unix

package rxetest

// Unsafe because both sides of a ring access its indices atomically, at their addresses in memory that both map.

import (
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/rxe"
)

// Sizes of slots in bytes.
const (
	wcSlot   = 64
	sendSlot = 1024
	recvSlot = 1024
)

// completion is the part of struct ib_uverbs_wc that is filled in.
type completion struct {
	ID                                                     uint64
	Status, Opcode, VendorErr, Len, Imm, QPN, SrcQP, Flags uint32
}

// ring is the driver's side of a ring.
type ring struct {
	mem  []byte
	head *rxe.QueueBuf
	mask uint32
	slot uint32
}

// newRing creates a ring for n entries.
func newRing(n, slot int) (ring, error) {
	slots := 1 << bits.Len(uint(n))
	head := int(unsafe.Sizeof(rxe.QueueBuf{}))
	mem, err := syscall.Mmap(-1, 0, head+slots*slot, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		return ring{}, err
	}
	r := ring{mem: mem, mask: uint32(slots - 1), slot: uint32(slot), head: (*rxe.QueueBuf)(unsafe.Pointer(&mem[0]))}
	r.head.Log2ElemSize, r.head.IndexMask = uint32(bits.Len(uint(slot))-1), r.mask
	return r, nil
}

func (r *ring) at(i uint32) []byte {
	from := uint32(unsafe.Sizeof(rxe.QueueBuf{})) + (i&r.mask)*r.slot
	return r.mem[from : from+r.slot]
}

// consume takes a slot that the program filled and returns a copy, because the program may fill it again. It returns nil if the
// ring is empty.
func (r *ring) consume() []byte {
	i := atomic.LoadUint32(&r.head.ConsumerIndex)
	if i == atomic.LoadUint32(&r.head.ProducerIndex) {
		return nil
	}
	slot := append([]byte(nil), r.at(i)...)
	atomic.StoreUint32(&r.head.ConsumerIndex, (i+1)&r.mask)
	return slot
}

// produce returns the slot to fill, or nil if the ring is full. produced makes the slot visible to the program.
func (r *ring) produce() []byte {
	i := atomic.LoadUint32(&r.head.ProducerIndex)
	if (i+1)&r.mask == atomic.LoadUint32(&r.head.ConsumerIndex) {
		return nil
	}
	return r.at(i)
}

func (r *ring) produced() {
	atomic.StoreUint32(&r.head.ProducerIndex, (atomic.LoadUint32(&r.head.ProducerIndex)+1)&r.mask)
}

// moveTo moves the entries of a ring into another.
func (r *ring) moveTo(to *ring) {
	for slot := r.consume(); slot != nil; slot = r.consume() {
		copy(to.produce(), slot)
		to.produced()
	}
}
