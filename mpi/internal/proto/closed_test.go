package proto

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// closing is the state of two domains. As soon as one has closed no endpoint takes a message any
// more, although the messages of the closed one have not been polled yet, as in fabric/shm. A Poll
// returns one event at most.
type closing struct {
	closed bool
	then   func() // called once, after a Poll; may be nil
}

type closingDomain struct {
	fabric.Domain
	state *closing
}

func (d closingDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return closingEndpoint{ep, d.state}, err
}

func (d closingDomain) Poll(evs []fabric.Event) (int, error) {
	n, err := d.Domain.Poll(evs[:min(1, len(evs))])
	if then := d.state.then; then != nil {
		d.state.then = nil
		then()
	}
	return n, err
}

func (d closingDomain) Close() error {
	d.state.closed = true
	return d.Domain.Close()
}

type closingEndpoint struct {
	fabric.Endpoint
	state *closing
}

func (ep closingEndpoint) Send(header, payload []byte) error {
	if ep.state.closed {
		return fabric.ErrPeerClosed
	}
	return ep.Endpoint.Send(header, payload)
}

// leaver is process 1, which sends its last messages to the engine of process 0 and closes.
type leaver struct {
	t     *testing.T
	state *closing
	d     fabric.Domain
	ep    fabric.Endpoint
}

// newLeaver returns process 1, and an engine that is connected to it.
func newLeaver(t *testing.T) (*leaver, *Engine) {
	p := &leaver{t: t, state: new(closing)}
	tr := hooked{mem.NewHub(2).Transport(), func(d fabric.Domain) fabric.Domain { return closingDomain{d, p.state} }}
	e := openOne(t, tr, 0, 2, nil)
	p.d, p.ep = bareProcess(t, tr)
	e.Processes().Watch(testContext, 1) // connects
	return p, e
}

func (p *leaver) send(v wire.Envelope, payload []byte, w ...uint64) {
	p.t.Helper()
	head, n := wire.Header(v, w...)
	if err := p.ep.Send(head[:n], payload); err != nil {
		p.t.Error(err) // not Fatal: the goroutine that polls the engine calls leave, too
	}
}

// leave sends the last message, with tag 7, and closes.
func (p *leaver) leave() {
	p.t.Helper()
	p.send(wire.Envelope{Kind: wire.Eager, Context: testContext, Match: Match{Rank: 1, Tag: 7}}, []byte{42})
	if err := p.d.Close(); err != nil {
		p.t.Error(err)
	}
}

// TestClosedAfterMessages: process 1 has closed, so nothing can be sent to it. Its messages are
// received nevertheless, and only then this counts as its end. PeerError agrees with the send that
// failed before.
func TestClosedAfterMessages(t *testing.T) {
	const left = testContext + 1
	for name, meet := range map[string]func(*leaver, *Engine) (failed []Handle){
		"answer to Watch": func(p *leaver, e *Engine) []Handle {
			e.Contexts().Leave(left)
			p.send(wire.Envelope{Kind: wire.Watch, Context: left}, nil)
			p.leave()
			return nil
		},
		"answer to a synchronous message": func(p *leaver, e *Engine) []Handle {
			e.Irecv(from(1, 8), nil)
			p.send(wire.Envelope{Kind: wire.EagerSync, Context: testContext, Match: Match{Rank: 1, Tag: 8}}, nil, 1)
			p.leave()
			return nil
		},
		"send": func(p *leaver, e *Engine) []Handle {
			p.leave()
			if err := e.Send(to(0, 1, 1), nil, Standard); !errors.Is(err, ErrFailed) || !errors.Is(err, fabric.ErrPeerClosed) {
				p.t.Errorf("send: %v, want %v and %v", err, ErrFailed, fabric.ErrPeerClosed)
			}
			err := e.Processes().PeerError(testContext, []int32{1})
			if !errors.Is(err, ErrFailed) || !errors.Is(err, fabric.ErrPeerClosed) {
				p.t.Errorf("process 1 after a send to it has failed: %v, want %v and %v", err, ErrFailed, fabric.ErrPeerClosed)
			}
			return nil
		},
		"queued sends": func(p *leaver, e *Engine) []Handle {
			p.state.then = p.leave // after nothing was polled, and before the queue is sent
			return queueSends(p.t, e)
		},
	} {
		for _, finalizing := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", finalizing"}[finalizing], func(t *testing.T) {
				p, e := newLeaver(t)
				if finalizing {
					e.Processes().AllowFinalize()
				}
				x := []byte{0}
				last := e.Irecv(Route{Context: testContext, Peer: 1, Match: Match{Rank: 1, Tag: 7}}, x)
				failed := meet(p, e)
				if err := failsInTime(t, func() error { _, err := e.Requests().Wait(last); return err }); err != nil || x[0] != 42 {
					t.Errorf("the last message: received %d, %v; want 42", x[0], err)
				}
				checkEnd(t, e, finalizing, failed)
			})
		}
	}
}

// queueSends fills the transport to process 1, and returns two sends that wait for room.
func queueSends(t *testing.T, e *Engine) (queued []Handle) {
	t.Helper()
	for len(queued) < 2 {
		h, err := e.Isend(to(0, 1, 1), make([]byte, 4000), Standard)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Completed(h) {
			queued = append(queued, h)
		}
	}
	return queued
}

// checkEnd checks that the end of process 1 is known after its last message, and that these sends
// to it have failed.
func checkEnd(t *testing.T, e *Engine, finalizing bool, failed []Handle) {
	t.Helper()
	if err := e.Processes().PeerError(testContext, []int32{1}); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("process 1: %v, want %v", err, fabric.ErrPeerClosed)
	}
	if err := e.Processes().Err(); (err == nil) != finalizing {
		t.Errorf("finalizing: %v; the engine: %v", finalizing, err)
	}
	for i, h := range failed {
		if !e.Completed(h) {
			t.Errorf("queued send %d has not completed", i)
		} else if _, err := e.Requests().Wait(h); !errors.Is(err, ErrFailed) || !errors.Is(err, fabric.ErrPeerClosed) {
			t.Errorf("queued send %d: %v, want %v and %v", i, err, ErrFailed, fabric.ErrPeerClosed)
		}
	}
}
