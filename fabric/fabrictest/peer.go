package fabrictest

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// peer is a domain with the state that a program keeps beside it.
type peer struct {
	fabric.Domain
	w         *world
	transport fabric.Transport
	self      int
	caps      fabric.Caps
	eps       []fabric.Endpoint // by peer, nil until connected
	woken     chan struct{}     // holds a token once Wake was called
	evs       [1]fabric.Event
	queue     []fabric.Event // copies of events that arrived during a wait for another event
	tokens    uint64         // number of tokens used so far
	refusals  int            // how often Send returned ErrAgain
}

func (p *peer) open(ctx context.Context, n int) error {
	if err := p.transport.Probe(); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	d, err := p.transport.Open(ctx, &fabric.Config{Self: p.self, Size: n, Wake: func() {
		select {
		case p.woken <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	p.Domain, p.caps, p.eps = d, d.Caps(), make([]fabric.Endpoint, n)
	return nil
}

func (p *peer) connect(to int) error {
	ep, err := p.Connect(to, p.w.peers[to].Addr())
	if err != nil {
		return fmt.Errorf("connect to %d: %w", to, err)
	}
	p.eps[to] = ep
	return nil
}

// poll returns one event, if there is one. Its data is valid until the next poll.
func (p *peer) poll() (fabric.Event, bool, error) {
	n, err := p.Poll(p.evs[:])
	if err == nil && n == 0 && p.w.failed.Load() {
		err = errStopped
	}
	return p.evs[0], n == 1, err
}

// progress polls once and queues a copy of an event that arrived. If none did, it yields.
func (p *peer) progress() error {
	kept, err := p.tryProgress()
	if !kept {
		runtime.Gosched()
	}
	return err
}

// tryProgress is progress for a peer that sleeps rather than yields. It reports whether an event arrived.
func (p *peer) tryProgress() (bool, error) {
	ev, ok, err := p.poll()
	if ok {
		ev.Data = slices.Clone(ev.Data)
		p.queue = append(p.queue, ev)
	}
	return ok, err
}

// send sends a message as soon as there is room. It queues events that arrive meanwhile.
func (p *peer) send(to int, header, payload []byte) error {
	for {
		err := p.eps[to].Send(header, payload)
		if err == nil {
			return nil
		}
		if err != fabric.ErrAgain {
			return fmt.Errorf("send %d+%d bytes to %d: %w", len(header), len(payload), to, err)
		}
		p.refusals++
		if err := p.progress(); err != nil {
			return err
		}
	}
}

// next waits for the next message from a peer, or its PeerDown event.
func (p *peer) next(from int) (fabric.Event, error) {
	for {
		for i, ev := range p.queue {
			if ev.Kind != fabric.Done && int(ev.Peer) == from {
				p.queue = slices.Delete(p.queue, i, i+1)
				return ev, nil
			}
		}
		if err := p.progress(); err != nil {
			return fabric.Event{}, err
		}
	}
}

// receive waits for the next message from a peer and returns a copy.
func (p *peer) receive(from int) ([]byte, error) {
	ev, err := p.next(from)
	if err == nil && ev.Kind != fabric.Message {
		err = fmt.Errorf("waiting for a message from %d: %+v", from, ev)
	}
	return ev.Data, err
}

// expect receives a message and compares it with what fill makes of the seed.
func (p *peer) expect(from int, size int, seed uint64) error {
	got, err := p.receive(from)
	if err == nil {
		err = check(got, size, seed)
	}
	if err != nil {
		return fmt.Errorf("from %d: %w", from, err)
	}
	return nil
}

// transfer runs a Read or a Write to its end.
func (p *peer) transfer(start func(token uint64) (bool, error)) error {
	p.tokens++
	token := p.tokens
	if done, err := start(token); done || err != nil {
		return err
	}
	for {
		for i, ev := range p.queue {
			if ev.Kind == fabric.Done && ev.Token == token {
				p.queue = slices.Delete(p.queue, i, i+1)
				return ev.Err
			}
		}
		if err := p.progress(); err != nil {
			return err
		}
	}
}

// barrier sends an empty message to every peer and receives one from each. No other message may be in flight.
func (p *peer) barrier() error {
	for i := range p.w.peers {
		if err := p.send(i, nil, nil); err != nil {
			return err
		}
	}
	for i := range p.w.peers {
		if err := p.expect(i, 0, 0); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
	}
	return nil
}
