package mem

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
)

// Hub connects the peers of one process. Any goroutine may call its methods.
type Hub struct {
	inboxes []inbox // one per peer
	regions regions

	mu      sync.Mutex                 // guards pending
	pending map[uint64]*pendingSegment // segments that not all of their peers have mapped yet, by id
}

// NewHub returns a hub for n peers, numbered from 0. Each may open one domain, once.
func NewHub(n int) *Hub {
	h := &Hub{inboxes: make([]inbox, n), pending: make(map[uint64]*pendingSegment)}
	for i := range h.inboxes {
		h.inboxes[i].init(n)
	}
	return h
}

// Transport returns the transport whose domains are connected by this hub.
func (h *Hub) Transport() fabric.Transport { return transport{h} }

// Fail declares a peer dead because of err, which must not be nil. Every other peer receives a PeerDown event after the messages
// that the dead peer had sent, and its endpoint returns ErrPeerDown from then on. Sleeping peers are woken. The dead peer's own
// Poll returns an error. All these errors wrap both ErrPeerDown and err. Fail does nothing if the peer has
// already failed or closed.
func (h *Hub) Fail(peer int, err error) {
	h.takeDown(peer, &failure{fmt.Errorf("fabric/mem: peer %d: %w: %w", peer, fabric.ErrPeerDown, err)})
}

// takeDown marks a peer as down and notifies the others.
func (h *Hub) takeDown(peer int, why *failure) {
	if !h.inboxes[peer].down.CompareAndSwap(nil, why) {
		return
	}
	for i := range h.inboxes {
		if i != peer {
			h.inboxes[i].notify(peer)
		}
	}
	h.inboxes[peer].wakeIfArmed()
	h.leaveSegments(peer)
}

// failure is the reason of an end. It is allocated once, so that returning it costs nothing.
type failure struct{ err error }

// inbox holds what other goroutines have for a peer.
type inbox struct {
	armed  atomic.Bool             // the peer sleeps, or is about to
	opened atomic.Bool             // the peer's domain was opened
	down   atomic.Pointer[failure] // why the peer is down; nil: it is not
	wake   func()                  // set before armed
	groups []senderGroup           // by sender / groupSize
	_      [64]byte                // keeps the flags of two peers out of one cache line
}

// groupSize is the number of senders in a group: one for each bit of a word.
const groupSize = 64

// senderGroup is what an inbox has for a group of senders. It costs each of them two bits while none of them has connected.
type senderGroup struct {
	ready atomic.Uint64             // one bit per sender that may have messages, or have ended
	lanes atomic.Pointer[laneGroup] // nil until one of them connects
}

// laneGroup are the lanes from a group of senders, each nil until the sender connects.
type laneGroup [groupSize]atomic.Pointer[lane]

func (b *inbox) init(n int) {
	groups := (n + groupSize - 1) / groupSize
	b.groups = make([]senderGroup, groups, max(groups, 8)) // 128 bytes at least: no other peer's words in the same line
}

// notify sets the bit of sender, which must already have stored its message or its end, and wakes the peer if it sleeps. If the
// bit is already set there is nothing to do: the reader checks the lane again after clearing it.
func (b *inbox) notify(sender int) {
	word, bit := &b.groups[sender/groupSize].ready, uint64(1)<<(sender%groupSize)
	if word.Load()&bit == 0 {
		word.Or(bit)
		b.wakeIfArmed()
	}
}

// wakeIfArmed wakes the peer if it sleeps. The caller must already have stored what the peer checks between Arm and sleep.
func (b *inbox) wakeIfArmed() {
	if b.armed.Load() && b.armed.CompareAndSwap(true, false) && b.wake != nil {
		b.wake()
	}
}

// empty reports whether no sender has set its bit and the peer is not down.
func (b *inbox) empty() bool {
	for i := range b.groups {
		if b.groups[i].ready.Load() != 0 {
			return false
		}
	}
	return b.down.Load() == nil
}

// lane returns the lane from sender, or nil if the sender has not connected.
func (b *inbox) lane(sender int) *lane {
	lanes := b.groups[sender/groupSize].lanes.Load()
	if lanes == nil {
		return nil
	}
	return lanes[sender%groupSize].Load()
}

// makeLane returns a new lane from sender, which must not have one. Only the sender calls it, once.
func (b *inbox) makeLane(sender int) *lane {
	group := &b.groups[sender/groupSize].lanes
	if group.Load() == nil {
		group.CompareAndSwap(nil, new(laneGroup)) // otherwise another sender of the group has stored one
	}
	l := &lane{from: sender}
	group.Load()[sender%groupSize].Store(l)
	return l
}

// transport opens domains at a hub.
type transport struct{ hub *Hub }

func (t transport) Name() string { return transports.Mem.String() }

func (t transport) Probe() error { return nil }

func (t transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("fabric/mem: open: %w", err)
	}
	n := len(t.hub.inboxes)
	if cfg.Size != n || cfg.Self < 0 || cfg.Self >= n {
		return nil, fmt.Errorf("fabric/mem: open: peer %d of %d at a hub for %d", cfg.Self, cfg.Size, n)
	}
	box := &t.hub.inboxes[cfg.Self]
	if why := box.down.Load(); why != nil {
		return nil, fmt.Errorf("fabric/mem: open: %w", why.err)
	}
	if box.opened.Swap(true) {
		return nil, fmt.Errorf("fabric/mem: open: peer %d has opened a domain already", cfg.Self)
	}
	box.wake = cfg.Wake
	return &domain{
		hub:      t.hub,
		self:     cfg.Self,
		box:      box,
		eps:      map[int]*endpoint{},
		reported: make([]uint64, len(box.groups)),
	}, nil
}
