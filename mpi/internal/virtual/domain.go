package virtual

import (
	"fmt"
	"runtime"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxEmptyPolls is the number of polls in vain, one after another, after which a peer is taken to wait. A program that calls
	// Test in a loop does so without sleeping.
	maxEmptyPolls = 64
	// windowBytes is how much a peer may have under way to another one, unless it is one message.
	windowBytes = 1 << 20
	// headerRoom is how much longer than the longest eager payload a message may be.
	headerRoom = 256
)

// domain is one peer's membership in a hub.
type domain struct {
	hub    *Hub
	self   int
	memory fabric.Domain
	polled bool // Poll has been called
	closed bool
}

func (d *domain) Addr() []byte { return nil }

// Caps returns those of fabric/mem, with the longest eager message of the model.
func (d *domain) Caps() fabric.Caps {
	c := d.memory.Caps()
	c.Eager = d.hub.links.Model().Eager
	c.MaxSend = d.hub.maxSend()
	return c
}

func (d *domain) Register(b []byte) (fabric.Region, error) { return d.memory.Register(b) }
func (d *domain) Deregister(r fabric.Region) error         { return d.memory.Deregister(r) }
func (d *domain) peer() *peer                              { return &d.hub.peers[d.self] }

// checkUsable returns an error if this domain was closed or has failed.
func (d *domain) checkUsable() error {
	if d.closed {
		return errClosed
	}
	return d.peer().ended
}

var errClosed = fmt.Errorf("virtual: domain: %w", fabric.ErrClosed)

func (d *domain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := d.checkUsable(); err != nil {
		return nil, err
	}
	if peer < 0 || peer >= len(h.peers) {
		return nil, fmt.Errorf("virtual: connect: peer %d of %d", peer, len(h.peers))
	}
	_, linked := d.peer().endpoints[peer]
	e := h.endpoint(d.self, peer)
	if e.memory != nil {
		return e, nil
	}
	if e.ended != nil {
		return nil, fmt.Errorf("virtual: connect: %w", e.ended)
	}
	var err error
	if e.memory, err = d.memory.Connect(peer, nil); err != nil {
		return nil, err
	}
	if !linked && h.peers[peer].ended != nil { // it was not connected when the peer ended
		h.reportEnd(peer, d.self, h.peers[peer].ended)
		h.step()
	}
	return e, nil
}

// Poll yields the processor if it is taken to wait: the peer that runs may need it.
func (d *domain) Poll(evs []fabric.Event) (int, error) {
	n, waits, err := d.poll(evs)
	if waits {
		runtime.Gosched()
	}
	return n, err
}

// poll is Poll. waits says that the peer has polled in vain too often.
func (d *domain) poll(evs []fabric.Event) (n int, waits bool, err error) {
	h, p := d.hub, d.peer()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := d.checkUsable(); err != nil {
		return 0, false, err
	}
	d.polled = true
	n = copy(evs, p.inbox)
	p.inbox = p.inbox[n:]
	if n == 0 {
		if p.emptyPolls++; p.emptyPolls >= maxEmptyPolls {
			h.wait(p)
			waits = p.waits
		}
	}
	return n, waits, nil
}

// Arm lets the peer wait. Before the first Poll it only tells that the domain has no descriptor.
func (d *domain) Arm() (fd int, ready bool, err error) {
	h, p := d.hub, d.peer()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := d.checkUsable(); err != nil || !d.polled {
		return -1, false, err
	}
	if len(p.inbox) == 0 {
		h.wait(p)
	}
	return -1, !p.waits, nil
}

func (d *domain) Close() error {
	h := d.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	h.end(d.self, fmt.Errorf("virtual: peer %d: %w", d.self, fabric.ErrPeerClosed))
	return d.memory.Close()
}
