package virtual

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi/simulate"
)

// Hub connects the peers of one process, and has their clocks. Any goroutine may call its methods.
type Hub struct {
	memory  *mem.Hub // registrations, Read and Write
	untimed func(header []byte) bool

	mu        sync.Mutex // guards everything below, and all peers and endpoints
	links     *simulate.Links
	peers     []peer
	running   int // number of peers that do not wait, and have not ended
	events    eventHeap
	delivered uint64 // number of events that have been delivered
}

// peer is the state of a peer. Times are in ns since the start of the simulation.
type peer struct {
	now        float64 // its clock
	wake       func()
	waits      bool  // it sleeps, or has polled in vain, and no event has been delivered since
	emptyPolls int   // number of polls in vain since the last event
	ended      error // why it is down; nil: it is not
	inbox      []fabric.Event
	numbered   uint64            // number of its events so far
	endpoints  map[int]*endpoint // by peer, those that either side has connected
}

// event is something that happens to a peer at a time.
type event struct {
	at     float64
	source int    // the peer that has caused it
	number uint64 // of the events of the source

	phase    phase
	from, to int // the transfer
	bytes    int
	ack      bool // the event follows the transfer by a latency

	receiver int
	untimed  bool         // the receiver's clock does not change
	event    fabric.Event // of kind 0: there is room for messages of the receiver
	endpoint *endpoint    // of the sender of a message, or of the receiver of the event that there is room; otherwise nil
}

type phase uint8

const (
	departs phase = iota // it needs the links
	arrives
)

// eventHeap has the earliest event first. Of events at the same time that of the lowest source is first, then the oldest, so that
// the order is the same in every run.
type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	x, y := h[i], h[j]
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.source, y.source), cmp.Compare(x.number, y.number)) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	s := *h
	x := s[len(s)-1]
	s[len(s)-1] = nil
	*h = s[:len(s)-1]
	return x
}

// NewHub returns a hub for peers, of which nodeOf gives the numbers of the nodes. untimed, if not nil, reports by its header
// whether a message takes no time of its sender and receiver: one that is sent because time of the machine has passed, and that
// no clock may depend on.
func NewHub(m simulate.Model, nodeOf []int, untimed func(header []byte) bool) (*Hub, error) {
	links, err := simulate.NewLinks(m, nodeOf)
	if err != nil {
		return nil, err
	}
	n := len(nodeOf)
	if untimed == nil {
		untimed = func([]byte) bool { return false }
	}
	h := &Hub{memory: mem.NewHub(n), untimed: untimed, links: links, peers: make([]peer, n), running: n}
	for i := range h.peers {
		h.peers[i].endpoints = map[int]*endpoint{}
	}
	return h, nil
}

// Now returns the clock of a peer in ns.
func (h *Hub) Now(peer int) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.peers[peer].now)
}

// Events returns the number of events that have been delivered.
func (h *Hub) Events() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delivered
}

// Compute lets a peer compute for some time: its clock moves on, and what it does next is later.
func (h *Hub) Compute(peer int, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers[peer].now += float64(max(d, 0))
}

// Fail declares a peer dead because of err, which must not be nil. Its Poll returns an error. The peers that are connected with
// it, or connect later, receive the event PeerDown after what it has sent. Fail does nothing if the peer has failed or closed.
func (h *Hub) Fail(peer int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(peer, fmt.Errorf("virtual: peer %d: %w: %w", peer, fabric.ErrPeerDown, err))
}

// end ends a peer, and reports it to those that are connected. It does nothing if the peer has ended before.
func (h *Hub) end(peer int, why error) {
	p := &h.peers[peer]
	if p.ended != nil {
		return
	}
	p.ended, p.inbox = why, nil
	for _, i := range slices.Sorted(maps.Keys(p.endpoints)) {
		if h.peers[i].ended == nil {
			h.reportEnd(peer, i, why)
		}
	}
	if !p.waits {
		h.running--
	} else if p.wake != nil {
		p.wake()
	}
	h.step()
}

// reportEnd tells a peer that another one has ended.
func (h *Hub) reportEnd(ended, to int, why error) {
	h.schedule(&event{at: h.peers[ended].now, source: ended, from: ended, to: to, receiver: to,
		event: fabric.Event{Kind: fabric.PeerDown, Peer: int32(ended), Err: why}})
}

// maxSend returns the length of the longest message.
func (h *Hub) maxSend() int { return h.links.Model().Eager + headerRoom }

// schedule adds an event.
func (h *Hub) schedule(x *event) {
	p := &h.peers[x.source]
	p.numbered++
	x.number = p.numbered
	heap.Push(&h.events, x)
}

// wait records that a peer waits.
func (h *Hub) wait(p *peer) {
	if !p.waits {
		p.waits = true
		h.running--
	}
	h.step()
}

// step delivers the earliest events if no peer runs, until one does.
func (h *Hub) step() {
	for h.running == 0 && len(h.events) != 0 {
		x := heap.Pop(&h.events).(*event)
		if x.phase == departs {
			h.transfer(x)
			heap.Push(&h.events, x)
			continue
		}
		switch {
		case x.event.Kind == fabric.Message:
			h.leaveWindow(x)
		case x.endpoint != nil:
			x.endpoint.full, x.endpoint.reopens = false, false
		}
		h.deliver(x)
	}
}

// deliver gives an event to its receiver, which waits, and runs from now on.
func (h *Hub) deliver(x *event) {
	p := &h.peers[x.receiver]
	if p.ended != nil {
		return
	}
	switch x.event.Kind {
	case fabric.Message, fabric.PeerDown:
		e := h.endpoint(x.receiver, int(x.event.Peer))
		if e.ended != nil {
			return // its end has been reported, or it was closed
		}
		e.ended = x.event.Err
		fallthrough
	case fabric.Done:
		p.inbox = append(p.inbox, x.event)
	}
	if !x.untimed {
		p.now = max(p.now, x.at)
		if x.event.Kind == fabric.Message || x.event.Kind == fabric.Done {
			p.now += float64(h.links.Between(x.from, x.to).Overhead)
		}
	}
	p.waits, p.emptyPolls = false, 0
	h.delivered++
	h.running++
	p.wake()
}

// endpoint returns the endpoint of a peer to another one. It makes both sides.
func (h *Hub) endpoint(self, peer int) *endpoint {
	e := h.peers[self].endpoints[peer]
	if e == nil {
		e = &endpoint{hub: h, self: self, peer: peer}
		h.peers[self].endpoints[peer] = e
		h.endpoint(peer, self)
	}
	return e
}

// Transport returns the transport whose domains are connected by this hub.
func (h *Hub) Transport() fabric.Transport { return transport{h} }

type transport struct{ hub *Hub }

func (t transport) Name() string { return "virtual" }
func (t transport) Probe() error { return nil }

func (t transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	h := t.hub
	memory, err := h.memory.Transport().Open(ctx, &fabric.Config{Self: cfg.Self, Size: cfg.Size})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.peers[cfg.Self]
	if p.ended != nil {
		return nil, cmp.Or(memory.Close(), p.ended)
	}
	p.wake = cfg.Wake
	if p.wake == nil {
		p.wake = func() {}
	}
	return &domain{hub: h, self: cfg.Self, memory: memory}, nil
}
