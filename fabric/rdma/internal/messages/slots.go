package messages

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/verbs"
)

// Slots is a pool of bounce buffers: registered memory for messages, in slots of equal size that
// are numbered from 0. The pool grows on demand, and is freed as a whole.
type Slots struct {
	PD     *verbs.PD // with which the memory is registered
	Bytes  int       // of a slot, a multiple of 64
	Limit  int       // most slots that the pool may have
	Free   []uint32  // slots that nothing uses; the next one is taken from the end
	blocks []block
}

type block struct {
	mem []byte
	mr  *verbs.MR
	all verbs.SGE // covers mem
}

// BlockSlots is how many slots are allocated and registered together.
const BlockSlots = 1 << blockShift

const blockShift = 5

var errNoSlots = errors.New("all slots are in use")

// Total returns how many slots the pool has.
func (s *Slots) Total() int { return len(s.blocks) << blockShift }

// Full reports whether the pool has as many slots as it may have.
func (s *Slots) Full() bool { return s.Total()+BlockSlots > s.Limit }

// Grow adds a block. Its slots are free.
func (s *Slots) Grow() error {
	if s.Full() {
		return fmt.Errorf("%w: %d of %d bytes", errNoSlots, s.Total(), s.Bytes)
	}
	mem, err := memory.Map(BlockSlots * s.Bytes)
	if err != nil {
		return err
	}
	mr, err := s.PD.Register(mem, verbs.LocalWrite)
	if err != nil {
		memory.Unmap(mem)
		return err
	}
	first := uint32(s.Total())
	s.blocks = append(s.blocks, block{mem, mr, mr.SGE(0, len(mem))})
	for i := uint32(BlockSlots); i > 0; i-- {
		s.Free = append(s.Free, first+i-1)
	}
	return nil
}

// growOrStay grows the pool, and reports whether it did. If the device does not grant more, the
// pool keeps its size from now on: to ask again for every message would take time, and slots become
// free.
func (s *Slots) growOrStay() bool {
	if s.Grow() != nil {
		s.Limit = s.Total()
		return false
	}
	return true
}

// Take takes a free slot. It grows the pool if no slot is free. ok is false if the pool cannot
// grow.
func (s *Slots) Take() (slot uint32, ok bool) {
	if len(s.Free) == 0 && !s.growOrStay() {
		return 0, false
	}
	slot = s.Free[len(s.Free)-1]
	s.Free = s.Free[:len(s.Free)-1]
	return slot, true
}

// Give returns a slot to the pool.
func (s *Slots) Give(slot uint32) { s.Free = append(s.Free, slot) }

// Mem returns the memory of a slot.
func (s *Slots) Mem(i uint32) []byte {
	at := int(i&(BlockSlots-1)) * s.Bytes
	return s.blocks[i>>blockShift].mem[at : at+s.Bytes : at+s.Bytes]
}

// SGE returns a scatter/gather entry for the first n bytes of a slot.
func (s *Slots) SGE(i uint32, n int) verbs.SGE {
	e := s.blocks[i>>blockShift].all
	e.Addr += uint64(i&(BlockSlots-1)) * uint64(s.Bytes)
	e.Len = uint32(n)
	return e
}

// Unmap frees the memory. The device must be closed before.
func (s *Slots) Unmap() {
	for _, b := range s.blocks {
		memory.Unmap(b.mem)
	}
	s.blocks, s.Free = nil, nil
}
