//go:build linux

package shm

// Unsafe because control blocks are laid over memory that other processes map.

import (
	"unsafe"

	ring "github.com/ibrun/ibrun/internal/shm"
)

// controlBytes is one page, so that a control block is the unit in which memory is taken.
const controlBytes = 4096

// maxLocal is how many peers the bitmaps of a control block can name.
const maxLocal = 64 * 64

// What a peer's flags say. Zero is the usual state: open and awake.
const (
	asleep = 1 << iota
	closed
)

// control is what a peer tells the others. Each group has the lines to itself that one side writes and the other polls.
type control struct {
	flags uint32 // asleep, closed
	_     [124]byte

	opened uint32 // 1 when what follows is valid
	pid    uint32
	pidns  uint64 // inode of the pid namespace in which pid is meant
	fence  uint32 // 1 if senders must fence, since this peer cannot make them pass a barrier
	_      [108]byte

	news uint64 // counts changes of the two bitmaps
	_    [120]byte

	from [maxLocal / 64]uint64 // who writes a ring to this peer
	gone [maxLocal / 64]uint64 // who has closed
}

func controlAt(mem []byte, i int) *control {
	return (*control)(unsafe.Pointer(unsafe.SliceData(mem[i*controlBytes : (i+1)*controlBytes])))
}

// ringBytes is a ring's length in whole pages, whose space is or is to be this.
func ringBytes(space int) int { return (ring.RingBytes(space) + 4095) &^ 4095 }

// ringOffset is where the ring from local peer i to local peer j of n lies in the segment.
func ringOffset(i, j, n int) int64 {
	return int64(n)*controlBytes + int64(i*n+j)*int64(ringBytes(wideSpace))
}

// segmentBytes is the length of the segment of n local peers. Nearly all of it is never allocated.
func segmentBytes(n int) int64 { return ringOffset(n, 0, n) }
