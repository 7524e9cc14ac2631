package tcp

import (
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/ibrun/ibrun/fabric"
)

// regions is the memory that peers may read. A key is the number of a slot and a random part, so that neither a stale key nor one
// of another peer is valid. Addresses count from the beginning of a region.
type regions struct {
	slots []slot
	free  []uint32
	live  int
}

type slot struct {
	key uint64 // 0: free
	b   []byte
}

const slotBits = 24

// add registers b.
func (r *regions) add(b []byte) (fabric.Region, error) {
	var i uint32
	if n := len(r.free); n > 0 {
		i, r.free = r.free[n-1], r.free[:n-1]
	} else {
		if len(r.slots) == 1<<slotBits {
			return fabric.Region{}, fmt.Errorf("tcp: register memory: no more keys: %d regions are registered: %w",
				len(r.slots), syscall.ENOSPC)
		}
		i = uint32(len(r.slots))
		r.slots = append(r.slots, slot{})
	}
	key := rand.Uint64()<<slotBits | uint64(i)
	for key>>slotBits == 0 { // 0 is not a valid key
		key = rand.Uint64()<<slotBits | uint64(i)
	}
	r.slots[i] = slot{key, b}
	r.live++
	return fabric.Region{Remote: fabric.RemoteKey{Key: key}, Local: key}, nil
}

// remove ends a registration.
func (r *regions) remove(key uint64) error {
	s := r.slot(key)
	if s == nil {
		return fmt.Errorf("tcp: deregister %#x: no such region", key)
	}
	*s = slot{}
	r.free = append(r.free, uint32(key&(1<<slotBits-1)))
	r.live--
	return nil
}

// slot returns the slot of a key, or nil if the key is not valid.
func (r *regions) slot(key uint64) *slot {
	i := key & (1<<slotBits - 1)
	if key == 0 || i >= uint64(len(r.slots)) || r.slots[i].key != key {
		return nil
	}
	return &r.slots[i]
}

// find returns the memory that a request names.
func (r *regions) find(q request) ([]byte, bool) {
	s := r.slot(q.src.Key)
	if s == nil || q.src.Addr > uint64(len(s.b)) || q.bytes > uint64(len(s.b))-q.src.Addr {
		return nil, false
	}
	return s.b[q.src.Addr:][:q.bytes:q.bytes], true
}
