package shm

import (
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// Arm sets this peer's flag asleep and then checks for events once more. The order matters: flag, barrier, check. A sender stores
// its record first and then loads the flag, so either the check finds the record or the sender finds the flag.
//
// membarrier makes the other processes pass the barrier, so their senders need no fence between the store and the load. If it is
// missing, needsFence makes them execute one, and the atomic OrUint32 is the fence on this side.
func (d *Domain) Arm() (int, bool, error) {
	if d.self == nil {
		return -1, false, fabric.ErrClosed
	}
	d.releaseBorrowed()
	atomic.OrUint32(&d.self.flags, asleep)
	d.armed, d.slowPoll = true, true
	if d.canBarrier {
		if err := membarrier(membarrierGlobalExpedited); err != nil {
			return -1, false, fmt.Errorf("shm: membarrier: %w", err)
		}
	}
	return d.sock.fd, d.hasEvents(), nil
}

// hasEvents reports whether Poll would find an event or a change.
func (d *Domain) hasEvents() bool {
	if len(d.downEvents) != 0 || atomic.LoadUint64(&d.self.changes) != d.changesSeen {
		return true
	}
	for _, in := range d.inbounds.all {
		if in.closed || in.r.Ready() {
			return true
		}
	}
	return false
}

// disarm clears this peer's flag asleep and reads the messages that have arrived.
func (d *Domain) disarm() error {
	d.armed = false
	atomic.AndUint32(&d.self.flags, ^uint32(asleep))
	return d.sock.drain()
}

// Wake wakes a peer of this node if it sleeps. Stores made before are visible to it.
func (d *Domain) Wake(peer int) {
	if to, ok := slices.BinarySearch(d.local, peer); ok && d.self != nil {
		if !d.canBarrier || d.controls[to].needsFence != 0 {
			d.fence()
		}
		d.wakePeer(to)
	}
}

// notify sets this peer's bit in one of the bitmaps of another peer, counts the change, and wakes that peer.
func (d *Domain) notify(to int, bitmap *[maxLocal / 64]uint64) {
	atomic.OrUint64(&bitmap[d.selfIndex/64], 1<<(d.selfIndex%64))
	atomic.AddUint64(&d.controls[to].changes, 1)
	d.wakePeer(to)
}

// wakePeer wakes a peer if it sleeps. The caller's stores must be visible before the flag is loaded: either the caller has
// executed a fence, or the sleeping peer has made this process pass a barrier in Arm. Of the peers only the one that clears the
// flag sends the message.
func (d *Domain) wakePeer(to int) {
	if f := &d.controls[to].flags; atomic.LoadUint32(f)&asleep != 0 && atomic.AndUint32(f, ^uint32(asleep))&asleep != 0 {
		d.senders.wake(to)
	}
}

// fence orders earlier stores before later loads. An atomic read-modify-write does that on every processor that Go supports.
func (d *Domain) fence() { d.fenceWord.Add(1) }

// Commands of membarrier(2), from the kernel's include/uapi/linux/membarrier.h.
const (
	membarrierGlobalExpedited         = 1 << 1
	membarrierRegisterGlobalExpedited = 1 << 2
)

// membarrier calls membarrier(2), which has no wrapper in package unix.
func membarrier(cmd uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_MEMBARRIER, cmd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// registerBarrier lets this process take part in barriers. It reports whether this process can also request one.
func registerBarrier() bool {
	return membarrier(membarrierRegisterGlobalExpedited) == nil && membarrier(membarrierGlobalExpedited) == nil
}
