package coll

import (
	"fmt"

	"github.com/ibrun/ibrun/internal/shm"
)

// ShmConfig describes the memory that the ranks of one communicator share, as one rank sees it.
type ShmConfig struct {
	// Mem is the same memory at each rank, of the same length, zeroed before the first rank uses it, and aligned to 128
	// bytes. ShmBytes returns how long it should be. The bytes that every collective uses, at its start, have been allocated;
	// ShmWords returns how many they are.
	Mem []byte
	// Allocate allocates a part of the rest of Mem, before it is used. nil: all of Mem has been allocated.
	Allocate func(part []byte) error
	// Rank is the number of this rank in the communicator, Size the number of ranks.
	Rank, Size int
	// Oversubscribed is set if there may be fewer cores than ranks. A rank that waits then yields immediately. It is the same at
	// every rank.
	Oversubscribed bool
	// Cores is the number of cores that the ranks share, as far as this rank knows. It may differ between ranks.
	Cores int
	// Sync is how this rank waits for words of others and publishes its own.
	Sync WordSync
	// Remote is the memory of the other ranks. If it is not nil at any rank, it is not nil at all of them, and they call
	// TryRemote first.
	Remote RemoteMemory
	// Table has the rules that are searched first; nil: none. It is the same at every rank.
	Table *Table
}

// WordSync synchronizes ranks by words in shared memory. Words only increase. A WordSync is used by one goroutine at a time.
type WordSync interface {
	// WaitAtLeast blocks until *w >= v, both taken modulo 2^64. w is a word of a rank, or of all ranks if rank is -1. It
	// returns an error if the communicator is broken, or if that rank has left it.
	// It makes progress with other traffic while it waits. Stores made before the Publish of the value that it saw are
	// visible afterwards.
	WaitAtLeast(rank int, w *uint64, v uint64) error
	// Publish stores v in *w after all earlier stores, and wakes the ranks that sleep until *w has that value.
	Publish(w *uint64, v uint64)
	// Differ returns the error of a collective in which a rank has made another call than this rank. The arguments are what
	// the two have given to Begin, with the bits above CallBits, which differ if earlier calls did. No collective succeeds
	// afterwards, so Differ lets WaitAtLeast of the other ranks fail.
	Differ(rank int, mine, other uint64) error
}

// Shm runs collectives over memory that all ranks of a communicator have mapped. As with messages, all ranks call
// the same methods in the same order, one at a time; they may call functions that use messages in between. Methods allocate
// nothing, except memory for direct copies that later calls use again.
//
// A collective is a sequence of steps: see shmSteps. Many ranks with a core each, on several NUMA nodes, wait on two levels in
// some collectives: see shm_numa.go.
type Shm struct {
	shmSteps
	copier    shm.Copier // copies data into slots
	processes []uint64   // those of the ranks; nil until TryRemote
	own       []byte     // copy of a buffer that others read while it is overwritten
	offered   uint64     // the last step in which others read from a buffer of this rank
	numa      *Nodes     // how the ranks are distributed over NUMA nodes; nil: algorithms have one level
	exchanges uint64     // of a leader: how often it has met the others; see shm_numa.go
	// Of reductions with direct copies: pieces of the data of others, in two, and of a result that cannot be written yet, and the
	// addresses of the ranks.
	operands  [3][]byte
	addresses []uint64
	result    bool // the data of the slots that belong to no rank have been allocated
}

const (
	line          = 128             // bytes between words that different ranks write: two cache lines, which are fetched together
	inlineBytes   = line - 16       // data up to this length are beside the word, so that one cache line holds both
	minSlotBytes  = 4 * kib         // bytes of data in a slot: the minimum
	maxSlotBytes  = 64 * kib        // and the maximum: a slot is read while the next one is filled
	minSlots      = 2               // slots of a rank
	maxSlots      = 32              // maximum: beyond twice a second-level cache, lines have left both caches before they are reused
	maxTotalBytes = 4096 * kib      // the data of all slots together
	resultBytes   = 8 * kib         // bytes of data in the slot that belongs to no rank
	spinPolls     = shm.PausedPolls // polls of a word before WordSync.WaitAtLeast: longer than a cache line from a far core takes
	lastRankPolls = 2 * spinPolls   // the same for a rank that waits for the last ranks: about the time of a context switch
)

// ShmBytes returns the bytes of memory with which a Shm is fastest, and the minimum.
func ShmBytes(ranks int) (best, least int) {
	least = fixedBytes(ranks) + ranks*minSlots*(line+minSlotBytes)
	best = fixedBytes(ranks) + min(ranks*maxSlots*(line+maxSlotBytes), maxTotalBytes)
	return max(best, least), least
}

// ShmWords returns the size of the words of a Shm with some bytes of memory, and of the data beside them.
func ShmWords(ranks, bytes int) int {
	slots, _ := shmSlots(ranks, bytes)
	return fixedBytes(ranks) - resultBytes + ranks*slots*line
}

// shmSlots returns how many slots a rank has, and the bytes of data in each.
func shmSlots(ranks, bytes int) (slots, room int) {
	each := (bytes - fixedBytes(ranks)) / ranks
	room = min(each/minSlots-line, maxSlotBytes) / line * line
	return min(each/(line+room), maxSlots), room
}

// fixedBytes returns the size of the counter, the words for ended steps, and the slots that belong to no rank.
func fixedBytes(ranks int) int { return line + ranks*line + maxSlots*line + resultBytes }

// NewShm returns a Shm that uses all of the shared memory. The ranks need not wait for each other. Memory that has been used
// cannot be used by another Shm. NewShm returns an error if the memory is too small or not aligned, or if there are too
// many ranks.
func NewShm(s ShmConfig) (*Shm, error) {
	_, least := ShmBytes(s.Size)
	switch {
	case s.Size > minSlotBytes:
		return nil, fmt.Errorf("coll: %d ranks cannot share memory: the maximum is %d", s.Size, minSlotBytes)
	case len(s.Mem) < least:
		return nil, fmt.Errorf("coll: %d ranks share %d bytes of memory but need %d", s.Size, len(s.Mem), least)
	case !aligned(s.Mem):
		return nil, fmt.Errorf("coll: shared memory is not aligned to %d bytes", line)
	}
	slots, room := shmSlots(s.Size, len(s.Mem))
	f := &Shm{shmSteps: shmSteps{ShmConfig: s, slotBytes: room, slots: uint64(slots), words: ShmWords(s.Size, len(s.Mem))}}
	if s.Oversubscribed {
		f.copier.Use(shm.Cached)
	}
	return f, nil
}

// Select returns the fastest algorithm over shared memory for a collective of some bytes, counted as [Rule.MaxBytes] describes:
// SharedMemory, SharedTwoLevel or DirectCopy, or None if messages are faster. The result is the same at all ranks.
//
// Rules for commutative operations count for all operations, because the operation is not known here. Their algorithms use
// messages, and then the rules for messages are searched again, with the operation. So with such a rule of a table an operation
// that does not commute uses messages as well.
func (f *Shm) Select(c Collective, bytes int) Algorithm {
	a := Choose(f.Table, c, bytes, f.Size, true, f.family()).Algorithm
	if a.family()&Shared == 0 {
		return None
	}
	return a
}

func (f *Shm) family() Family {
	has := Shared
	if f.Remote != nil {
		has = Direct
	}
	if f.numa != nil {
		has |= NUMANodes
	}
	if f.Oversubscribed {
		has |= Oversubscribed
	}
	return has
}

// Barrier returns when every rank has called it.
//
// Cost: one cache line from one core to another, or three on two levels; or, if ranks share cores, one run of each rank.
func (f *Shm) Barrier() error { return f.BarrierBefore(-1) }

// BarrierBefore is Barrier, which a collective probably follows that copies data of a root to all ranks. If ranks share cores,
// the root leaves the barrier first: a rank that left before the root would wait for the root once more, and each such wait is a
// context switch. -1 names no root. The ranks may name different ones: that of the rank which calls last counts.
func (f *Shm) BarrierBefore(root int) error {
	if f.Size == 1 {
		return nil
	}
	if f.numa != nil && f.usesNUMA(OfBarrier, 0, nil) {
		return f.synchronizeNUMA(nil, nil, nil)
	}
	if err := f.beginStep(0); err != nil { // the slot contains the call only
		return err
	}
	if f.Oversubscribed {
		return f.synchronizeBefore(root)
	}
	return f.synchronize()
}
