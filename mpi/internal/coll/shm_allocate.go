package coll

import (
	"math/bits"
	"sync/atomic"
)

// Communicators share memory for collectives of any length, but a program may have thousands of them that only need the words and
// the few bytes beside them. So each rank allocates the data of its slots when it first uses them.

// slotsAllocated is how many bytes of each slot of a rank have been allocated. Several goroutines may use it at once: then one of
// them may allocate what another has allocated, which does nothing.
type slotsAllocated [maxSlots]atomic.Uint32

// has reports whether n bytes of a slot may be used.
func (a *slotsAllocated) has(slot uint64, n int) bool { return n <= int(a[slot].Load()) }

// extend allocates at least n bytes of a slot, whose data are given.
func (a *slotsAllocated) extend(slot uint64, n int, data []byte, allocate func([]byte) error) error {
	if allocate == nil {
		n = len(data)
	} else {
		n = min(max(minSlotBytes, 1<<bits.Len(uint(n-1))), len(data)) // so an extension is rare
		if err := allocate(data[:n]); err != nil {
			return err
		}
	}
	a[slot].Store(uint32(n))
	return nil
}
