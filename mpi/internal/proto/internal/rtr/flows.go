package rtr

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxTargets is how many RTRs of one receiver in a context a sender stores at most. It bounds
	// the memory that a receiver can make a sender use. Further RTRs are ignored.
	maxTargets = 256
	// maxAheadOfTag is a limit of the receiver for each tag: it sends no RTR for a receive if so many
	// receives with the same tag were posted before. The sender would ignore that RTR: it stores
	// one only if it has stored those of all receives before, and has room for one more.
	maxAheadOfTag = maxTargets
)

// Flows has the traffic of contexts with RTRs, by context and peer. The zero Flows is empty.
type Flows struct {
	flows map[uint32]map[int32]*Flow
}

// Flow is the traffic between this process and another one in a context.
type Flow struct {
	epoch    uint32   // in which the peer's messages are counted
	received uint32   // messages from the peer
	sent     uint32   // messages to the peer
	targets  []Target // the peer's RTRs, in order
}

// Target is a receive buffer that an RTR has announced.
type Target struct {
	Tag   int32
	Bytes int
	ID    uint64           // of the peer's request
	Key   fabric.RemoteKey // of the buffer; it may name no memory
}

// Flow returns the flow for a context and a peer.
func (f *Flows) Flow(context uint32, peer int32) *Flow {
	byPeer := f.flows[context]
	if byPeer == nil {
		if f.flows == nil {
			f.flows = map[uint32]map[int32]*Flow{}
		}
		byPeer = map[int32]*Flow{}
		f.flows[context] = byPeer
	}
	x := byPeer[peer]
	if x == nil {
		x = new(Flow)
		byPeer[peer] = x
	}
	return x
}

// Known returns the flow for a context and a peer; nil if there is none.
func (f *Flows) Known(context uint32, peer int32) *Flow { return f.flows[context][peer] }

// Remove removes the flows of a context.
func (f *Flows) Remove(context uint32) { delete(f.flows, context) }

// Restart starts to count the messages to the peers of a context from 0, and drops their RTRs.
func (f *Flows) Restart(context uint32) {
	for _, x := range f.flows[context] {
		x.sent, x.targets = 0, nil
	}
}

// Cancel drops the RTRs of one request of a peer.
func (f *Flows) Cancel(peer int32, id uint64) {
	for _, byPeer := range f.flows {
		x := byPeer[peer]
		if x == nil {
			continue
		}
		if i := slices.IndexFunc(x.targets, func(t Target) bool { return t.ID == id }); i >= 0 {
			x.targets = slices.Delete(x.targets, i, i+1)
		}
	}
}

// SetKeys replaces the memory that the RTRs of a peer name by key.
func (f *Flows) SetKeys(peer int32, key fabric.RemoteKey) {
	for _, byPeer := range f.flows {
		if x := byPeer[peer]; x != nil {
			for i := range x.targets {
				x.targets[i].Key = key
			}
		}
	}
}

// Add stores an RTR if this process is sure which of its messages is matched with it; see the
// comment of the package. received and ahead are the counts in the RTR.
func (x *Flow) Add(t Target, received uint32, ahead int) {
	same := 0
	for i := range x.targets {
		if x.targets[i].Tag == t.Tag {
			same++
		}
	}
	if x.sent == received && same == ahead && len(x.targets) < maxTargets {
		x.targets = append(x.targets, t)
	}
}

// Take counts a message that is about to be sent, and removes the RTR that it is matched with. ok
// reports whether the message may be written there.
func (x *Flow) Take(tag int32, bytes int) (t Target, ok bool) {
	x.sent++
	for i := range x.targets {
		if t = x.targets[i]; t.Tag == tag {
			x.targets = slices.Delete(x.targets, i, i+1)
			return t, t.Bytes == bytes
		}
	}
	return t, false
}

// Count counts a message from the peer, of an epoch.
func (x *Flow) Count(epoch uint32) {
	if x.epoch != epoch {
		x.epoch, x.received = epoch, 0
	}
	x.received++
}

// MayAnnounce reports whether the peer may be sure about an RTR of an epoch: a message of the epoch
// has arrived, and the peer can store the RTR. ahead is the number of receives with the same tag
// that were posted before.
func (x *Flow) MayAnnounce(epoch uint32, ahead int) bool {
	return x != nil && x.epoch == epoch && ahead < maxAheadOfTag
}

// Received returns the number of messages of the present epoch from the peer.
func (x *Flow) Received() uint32 { return x.received }
