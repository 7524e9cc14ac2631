package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// slots is a pool of bounce buffers: registered memory for messages, in slots of equal size that are numbered from 0. The pool
// grows on demand, and is freed as a whole.
type slots struct {
	pd     *verbs.PD
	bytes  int // of a slot, a multiple of 64
	limit  int // most slots that the pool may have
	blocks []block
	free   []uint32
}

type block struct {
	mem []byte
	mr  *verbs.MR
	all verbs.SGE // covers mem
}

const (
	blockShift = 5
	blockSlots = 1 << blockShift // slots that are allocated and registered together
)

var errNoSlots = errors.New("all slots are in use")

func (s *slots) total() int { return len(s.blocks) << blockShift }

// full reports whether the pool has as many slots as it may have.
func (s *slots) full() bool { return s.total()+blockSlots > s.limit }

// grow adds a block. Its slots are free.
func (s *slots) grow() error {
	if s.full() {
		return fmt.Errorf("%w: %d of %d bytes", errNoSlots, s.total(), s.bytes)
	}
	mem, err := mapMemory(blockSlots * s.bytes)
	if err != nil {
		return err
	}
	mr, err := s.pd.Register(mem, verbs.LocalWrite)
	if err != nil {
		unmapMemory(mem)
		return err
	}
	first := uint32(s.total())
	s.blocks = append(s.blocks, block{mem, mr, mr.SGE(0, len(mem))})
	for i := uint32(blockSlots); i > 0; i-- {
		s.free = append(s.free, first+i-1)
	}
	return nil
}

// growOrStay grows the pool, and reports whether it did. If the device does not grant more, the pool keeps its size from now on:
// to ask again for every message would take time, and slots become free.
func (s *slots) growOrStay() bool {
	if s.grow() != nil {
		s.limit = s.total()
		return false
	}
	return true
}

// take takes a free slot. It grows the pool if no slot is free. ok is false if the pool cannot grow.
func (s *slots) take() (slot uint32, ok bool) {
	if len(s.free) == 0 && !s.growOrStay() {
		return 0, false
	}
	slot = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return slot, true
}

// give returns a slot to the pool.
func (s *slots) give(slot uint32) { s.free = append(s.free, slot) }

// mem returns the memory of a slot.
func (s *slots) mem(i uint32) []byte {
	at := int(i&(blockSlots-1)) * s.bytes
	return s.blocks[i>>blockShift].mem[at : at+s.bytes : at+s.bytes]
}

// sge returns a scatter/gather entry for the first n bytes of a slot.
func (s *slots) sge(i uint32, n int) verbs.SGE {
	e := s.blocks[i>>blockShift].all
	e.Addr += uint64(i&(blockSlots-1)) * uint64(s.bytes)
	e.Len = uint32(n)
	return e
}

// unmap frees the memory. The device must be closed before.
func (s *slots) unmap() {
	for _, b := range s.blocks {
		unmapMemory(b.mem)
	}
	s.blocks, s.free = nil, nil
}
