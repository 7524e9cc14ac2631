//go:build linux

package shm

// Unsafe because control blocks are in memory that other processes map.

import (
	"unsafe"

	ring "github.com/ibrun/ibrun/internal/shm"
)

// controlBytes is the size of a control block: one page, the unit in which memory is taken.
const controlBytes = 4096

// maxLocal is the number of peers that the bitmaps of a control block have room for.
const maxLocal = 64 * 64

// Bits of control.flags. Zero is the usual state: open and awake.
const (
	asleep = 1 << iota
	closed
)

// control is a peer's control block: what it publishes to the others, and what they record there for it. Each group has its own
// cache lines, because one side writes it and another polls it. All fields are accessed atomically, apart from pid, pidns and
// needsFence, which are written before opened.
type control struct {
	flags uint32 // bits asleep and closed. Arm sets asleep; disarm, wakePeer and peerEnded clear it. Loaded by Send, releaseBorrowed
	_     [124]byte

	opened     uint32 // 1 when the next three fields are valid. publishControl stores it, copyRemote and fenceAfterPut load it
	pid        uint32 // process id, in the pid namespace below
	pidns      uint64 // inode of the pid namespace
	needsFence uint32 // 1 if senders must execute a fence, because this peer cannot make them pass a barrier
	_          [108]byte

	changes uint64 // counts changes of the two bitmaps. notify adds to it, Poll and hasEvents load it
	_       [120]byte

	connectedFrom [maxLocal / 64]uint64 // peers that write a ring to this peer
	closedFrom    [maxLocal / 64]uint64 // peers that have closed their domain, or their endpoint to this peer
}

// controlAt returns the control block of local peer i.
func controlAt(mem []byte, i int) *control {
	return (*control)(unsafe.Pointer(unsafe.SliceData(mem[i*controlBytes : (i+1)*controlBytes])))
}

// ringBytes returns the length of a ring whose space has this size, in whole pages.
func ringBytes(space int) int { return (ring.RingBytes(space) + 4095) &^ 4095 }

// ringOffset returns where in the segment of n local peers the ring from local peer i to local peer j is.
func ringOffset(i, j, n int) int64 {
	return int64(n)*controlBytes + int64(i*n+j)*int64(ringBytes(largeSpace))
}

// segmentSize returns the length of the segment of n local peers. Nearly all of it is never allocated.
func segmentSize(n int) int64 { return ringOffset(n, 0, n) }
