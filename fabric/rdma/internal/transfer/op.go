package transfer

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// Pool counts the Reads and Writes of a domain that have not ended, and keeps memory for new ones.
// The endpoints list them.
type Pool struct {
	// Active is how many have not ended. It is changed with the lock of the domain held, and atomic
	// so that Poll reads it without the lock.
	Active atomic.Int32
	free   *Op // guarded by the lock of the domain
}

// Get returns memory for a new transfer. The caller must hold the lock of the domain.
func (t *Pool) Get() *Op {
	o := t.free
	if o == nil {
		return new(Op)
	}
	t.free = o.Next
	return o
}

// put clears a transfer and keeps its memory. The caller must hold the lock of the domain.
func (t *Pool) put(o *Op) {
	*o = Op{Next: t.free}
	t.free = o
}

// Op is a Read or a Write. Its pieces are posted in order. It is guarded by the lock of
// the domain.
type Op struct {
	Next   *Op
	Token  uint64
	Write  bool
	Ended  bool
	Oldest bool   // was first in the list when the last connection ended
	Local  uint64 // address of the local memory, unless it is in parts
	// Sink is the local memory of a Read if it is in parts, from byte From on; otherwise nil.
	Sink   fabric.Sink
	From   int64
	Keys   [cm.MaxRails]MemoryKeys
	Remote uint64              // address of the peer's memory
	RKeys  [cm.MaxRails]uint32 // by rail; those beyond the first are valid in KeysReady
	Row    uint16              // of the peer's key table
	Rail   int8                // the only rail to use, or AnyRail
	Bytes  int
	Posted int // bytes of the pieces that were posted
	Done   int // bytes of the pieces that have completed
	// Kept: the first bytes, which are not transferred again. They were carried out over
	// connections with one lane.
	Kept int
	// Most: Done must exceed this to be progress. It is the largest value of Done when a connection
	// ended; when a connection with one lane is established, it becomes Done.
	Most     int
	KeyState KeyState
	Err      error // the transfer ends with it once the connection is closed
}

// Carriers says which lanes of a connection may carry the next piece of a transfer.
type Carriers uint8

// The sets of lanes.
const (
	AllLanes    Carriers = iota
	FirstLanes           // those of the first rail
	LanesOfRail          // those of Op.Rail
	NoLane               // none yet
)

// NextCarriers returns which lanes of a connection may carry the next piece. lanes is how many lanes
// the connection has, and first is how many of them are on the first rail. While the keys for other rails are being read, the
// first rail gets no more than its share, which is nothing if the transfer is restricted to another
// rail.
func (o *Op) NextCarriers(first, lanes int) Carriers {
	switch {
	case o.KeyState == KeysReading && (o.Rail > 0 || o.Posted >= o.Bytes*first/lanes):
		return NoLane
	case o.KeyState != KeysReady:
		return FirstLanes
	case o.Rail > 0:
		return LanesOfRail
	}
	return AllLanes
}

// Complete records that a piece of n bytes was carried out, and reports whether the transfer is
// complete. One that has failed ends once the connection is closed.
func (o *Op) Complete(n int) bool {
	o.Done += n
	return o.Done == o.Bytes && o.Err == nil
}

// List lists the transfers of an endpoint, oldest first. It is guarded by the lock of
// the domain.
type List struct {
	First    *Op // the oldest that has not ended
	Last     *Op
	Unposted *Op // the first one with pieces to post
}

// Add appends a transfer.
func (l *List) Add(o *Op) {
	if l.Last == nil {
		l.First = o
	} else {
		l.Last.Next = o
	}
	l.Last = o
	if l.Unposted == nil {
		l.Unposted = o
	}
}

// Failed returns the oldest transfer that has failed and has not ended, nil if there is none.
func (l *List) Failed() *Op {
	for o := l.First; o != nil; o = o.Next {
		if o.Err != nil && !o.Ended {
			return o
		}
	}
	return nil
}

// End records that a transfer has ended. It removes the transfers at the head of the list that
// have, and gives back their memory: one that ends stays in the list until those before it have
// ended.
func (l *List) End(o *Op, t *Pool) {
	o.Ended = true
	t.Active.Add(-1)
	for l.First != nil && l.First.Ended {
		o := l.First
		if l.Unposted == o {
			l.Unposted = o.Next
		}
		if l.First = o.Next; l.First == nil {
			l.Last = nil
		}
		t.put(o)
	}
}

// Restart prepares the transfers to be posted again, after a connection of so many lanes has
// broken.
func (l *List) Restart(lanes int) {
	for o := l.First; o != nil; o = o.Next {
		o.Oldest = o == l.First
		o.Most = max(o.Most, o.Done)
		switch {
		case o.Ended: // it is behind one that has not ended; its memory belongs to its owner again
		case lanes > 1:
			// pieces have completed in any order
			o.Posted, o.Done, o.KeyState = o.Kept, o.Kept, KeysNone
		default:
			o.Posted, o.Kept = o.Done, o.Done
		}
	}
	l.Unposted = l.First
}

// KeyState is the state of the keys for the rails beyond the first.
type KeyState uint8

// The states of the keys.
const (
	KeysNone    KeyState = iota // not needed, or not requested yet
	KeysReading                 // being read from the peer's key table
	KeysReady                   // in Op.RKeys
)

// AnyRail lets the transport choose the rails of a transfer.
const AnyRail = -1
