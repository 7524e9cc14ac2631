package mem

import (
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/fabric"
)

// regions is the table of registered memory of all peers of a hub. The low half of a key is the number of
// a slot, the high half the slot's generation, so that a key that outlives its registration is detected. Addresses are offsets
// into the region.
type regions struct {
	mu    sync.RWMutex // guards the slices; not held while bytes are copied
	slots []*slot
	free  []uint32
}

// slot holds one registration. It is free if owner is noOwner.
type slot struct {
	mu         sync.RWMutex // held for reading while bytes are copied, so that Deregister waits for the copy
	owner      int
	generation uint32
	bytes      []byte
}

const noOwner = -1

// add registers b for owner and returns its key, which is never 0.
func (t *regions) add(owner int, b []byte) uint64 {
	t.mu.Lock()
	if len(t.free) == 0 {
		t.free = append(t.free, uint32(len(t.slots)))
		t.slots = append(t.slots, &slot{owner: noOwner})
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := t.slots[i]
	t.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner, s.bytes = owner, b
	s.generation++
	return uint64(s.generation)<<32 | uint64(i)
}

// find returns the slot that a key names, locked for reading. It returns an error if the key is stale or of another owner.
func (t *regions) find(owner int, key uint64) (*slot, error) {
	t.mu.RLock()
	var s *slot
	if i := int(uint32(key)); i < len(t.slots) {
		s = t.slots[i]
	}
	t.mu.RUnlock()
	if s != nil {
		s.mu.RLock()
		if s.owner == owner && s.generation == uint32(key>>32) {
			return s, nil
		}
		s.mu.RUnlock()
	}
	return nil, fmt.Errorf("key %#x is not a region of peer %d", key, owner)
}

// lockRange returns n bytes of a region and its slot, which stays locked for reading until the caller has copied them.
func (t *regions) lockRange(owner int, k fabric.RemoteKey, n int) (*slot, []byte, error) {
	s, err := t.find(owner, k.Key)
	if err != nil {
		return nil, nil, err
	}
	if size := uint64(len(s.bytes)); k.Addr > size || uint64(n) > size-k.Addr {
		s.mu.RUnlock()
		return nil, nil, fmt.Errorf("%d bytes at %d of a region of %d", n, k.Addr, size)
	}
	return s, s.bytes[k.Addr:][:n], nil
}

// checkLocal checks that a key may be the registration of n bytes of owner's memory. Without pointer arithmetic that is all that
// can be checked; it finds callers that forgot to register. Zero bytes need no registration.
func (t *regions) checkLocal(owner int, key uint64, n int) error {
	if n == 0 {
		return nil
	}
	s, _, err := t.lockRange(owner, fabric.RemoteKey{Key: key}, n)
	if err != nil {
		return err
	}
	s.mu.RUnlock()
	return nil
}

// remove ends a registration.
func (t *regions) remove(owner int, key uint64) error {
	s, err := t.find(owner, key)
	if err != nil {
		return fmt.Errorf("fabric/mem: deregister: %w", err)
	}
	s.mu.RUnlock()
	t.freeSlot(uint32(key), s)
	return nil
}

// removeAll ends every registration of owner.
func (t *regions) removeAll(owner int) {
	t.mu.RLock()
	slots := t.slots
	t.mu.RUnlock()
	for i, s := range slots {
		s.mu.RLock()
		mine := s.owner == owner
		s.mu.RUnlock()
		if mine {
			t.freeSlot(uint32(i), s)
		}
	}
}

// freeSlot frees slot i. The caller's own peer must own it, so that no other goroutine frees it.
func (t *regions) freeSlot(i uint32, s *slot) {
	s.mu.Lock()
	s.owner, s.bytes = noOwner, nil
	s.mu.Unlock()
	t.mu.Lock()
	t.free = append(t.free, i)
	t.mu.Unlock()
}
