package mem

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
)

// Hub is what the peers of one process meet at. Any goroutine may call its methods.
type Hub struct {
	inboxes []inbox // one per peer
	regions regions

	mu        sync.Mutex            // guards gathering
	gathering map[uint64]*gathering // segments that not all of their peers have fetched yet, by id
}

// NewHub makes a hub for n peers, numbered from 0. Each may open one domain, once.
func NewHub(n int) *Hub {
	h := &Hub{inboxes: make([]inbox, n), gathering: make(map[uint64]*gathering)}
	for i := range h.inboxes {
		h.inboxes[i].init(n)
	}
	return h
}

// Transport returns the transport whose domains meet at this hub.
func (h *Hub) Transport() fabric.Transport { return transport{h} }

// Fail declares a peer dead and tells why: every other peer gets a PeerDown event once it has taken what the dead
// one had sent it, and its endpoint answers ErrPeerDown from then on. Sleepers are woken. The dead peer's own Poll
// returns an error. All these errors wrap both ErrPeerDown and err, which must not be nil. Only the first end of a
// peer counts, be it by Fail or by Close.
func (h *Hub) Fail(peer int, err error) {
	h.end(peer, &failure{fmt.Errorf("fabric/mem: peer %d: %w: %w", peer, fabric.ErrPeerDown, err)})
}

// end takes a peer out of the set.
func (h *Hub) end(peer int, why *failure) {
	if !h.inboxes[peer].gone.CompareAndSwap(nil, why) {
		return
	}
	for i := range h.inboxes {
		if i != peer {
			h.inboxes[i].notify(peer)
		}
	}
	h.inboxes[peer].rouse()
	h.excuse(peer)
}

// failure is why something has ended. It is made once, so that answering with it costs nothing.
type failure struct{ err error }

// inbox is where other goroutines leave word for a peer.
type inbox struct {
	armed  atomic.Bool             // the peer sleeps, or is about to
	opened atomic.Bool             // the peer's domain was opened
	gone   atomic.Pointer[failure] // the peer has left or failed
	wake   func()                  // set before armed is
	ready  []atomic.Uint64         // one bit per sender that may have left something
	lanes  []atomic.Pointer[lane]  // by sender, nil until it connects
	_      [64]byte                // keeps the flags of two peers out of one cache line
}

func (b *inbox) init(n int) {
	words := (n + 63) / 64
	b.ready = make([]atomic.Uint64, words, max(words, 16)) // 128 bytes at least: no other peer's words in the same line
	b.lanes = make([]atomic.Pointer[lane], n)
}

// notify marks that sender has left something, after it has done so, and wakes the peer if it sleeps. If the bit is set
// already then whoever will clear it looks at the lane again afterwards, so there is nothing to do.
func (b *inbox) notify(sender int) {
	word, bit := &b.ready[sender/64], uint64(1)<<(sender%64)
	if word.Load()&bit == 0 {
		word.Or(bit)
		b.rouse()
	}
}

// rouse wakes the peer if it sleeps. What the peer would look for before it sleeps has been stored before.
func (b *inbox) rouse() {
	if b.armed.Load() && b.armed.CompareAndSwap(true, false) && b.wake != nil {
		b.wake()
	}
}

// empty tells whether nobody has left anything.
func (b *inbox) empty() bool {
	for i := range b.ready {
		if b.ready[i].Load() != 0 {
			return false
		}
	}
	return b.gone.Load() == nil
}

// lane returns the lane from sender, made now if it was not there.
func (b *inbox) lane(sender int) *lane {
	if l := b.lanes[sender].Load(); l != nil {
		return l
	}
	l := &lane{from: sender}
	b.lanes[sender].Store(l) // only the sender does this
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
	if why := box.gone.Load(); why != nil {
		return nil, fmt.Errorf("fabric/mem: open: %w", why.err)
	}
	if box.opened.Swap(true) {
		return nil, fmt.Errorf("fabric/mem: open: peer %d has opened a domain already", cfg.Self)
	}
	box.wake = cfg.Wake
	return &domain{
		hub:   t.hub,
		self:  cfg.Self,
		box:   box,
		ways:  make([]*endpoint, n),
		ended: make([]bool, n),
	}, nil
}
