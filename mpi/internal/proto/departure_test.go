package proto

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
)

// unreachable is a transport that cannot connect to any peer.
type unreachable struct{ fabric.Transport }

func (tr unreachable) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := tr.Transport.Open(ctx, c)
	return unreachableDomain{d}, err
}

type unreachableDomain struct{ fabric.Domain }

func (unreachableDomain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	return nil, fmt.Errorf("process %d: %w", peer, fabric.ErrPeerDown)
}

// failsInTime returns the error of a call that blocks.
func failsInTime(t *testing.T, call func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return waittest.Receive(t, "the call returns", ended)
}

// TestWatchFails: the connection that Watch needs cannot be made. The goroutine that was about to
// sleep, and those on the condition, return this failure.
func TestWatchFails(t *testing.T) {
	for n := 1; n <= 3; n++ {
		es := open(t, 2, func(tr fabric.Transport) fabric.Transport { return unreachable{tr} }, nil)
		ended := make(chan error, n)
		for i := range n {
			go func() {
				_, err := es[0].Recv(Route{Context: testContext, Peer: 1, Match: Match{Rank: 1, Tag: int32(i)}}, nil)
				ended <- err
			}()
		}
		for range n {
			if err := failsInTime(t, func() error { return <-ended }); !errors.Is(err, ErrFailed) {
				t.Errorf("%d goroutines: %v, want %v", n, err, ErrFailed)
			}
		}
	}
}

// TestDepartedAnySource: the other process has left. A receive from any process fails if it is from
// the other group only, as in an intercommunicator. Otherwise this process itself can still send.
func TestDepartedAnySource(t *testing.T) {
	for _, members := range [][]int32{{1}, {0, 1}} {
		es := open(t, 2, nil, func(c *Config) { c.Members = func(uint32) []int32 { return members } })
		e := es[0]
		e.Processes().AllowFinalize()
		x := []byte{0}
		h := e.Irecv(Route{Context: testContext, Peer: AnySource, Match: Match{Rank: AnySource, Tag: 7}}, x)
		if err := es[1].Close(); err != nil {
			t.Fatal(err)
		}
		other := Route{Context: testContext, Peer: 1, Match: Match{Rank: 1, Tag: 7}}
		if err := failsInTime(t, func() error { _, err := e.Recv(other, nil); return err }); !errors.Is(err, ErrFailed) {
			t.Fatalf("receive from the other process: %v", err)
		}
		if len(members) == 1 {
			if err := failsInTime(t, func() error { _, err := e.Requests().Wait(h); return err }); !errors.Is(err, ErrFailed) {
				t.Errorf("receive from the other group: %v", err)
			}
			continue
		}
		if err := e.Send(to(0, 0, 7), []byte{42}, Standard); err != nil {
			t.Error(err)
		}
		if _, err := e.Requests().Wait(h); err != nil || x[0] != 42 {
			t.Errorf("received %d from itself, %v", x[0], err)
		}
	}
}

// TestDroppedAfterLeave: a process that has left a context keeps no message that arrives in it.
func TestDroppedAfterLeave(t *testing.T) {
	es := open(t, 2, variant{fragments: true}.wrap, nil)
	const left = testContext + 1
	es[1].Contexts().Leave(left)
	for _, n := range []int{1, 20000} {
		route := to(0, 1, 7)
		route.Context = left
		if err := es[0].Send(route, make([]byte, n), Standard); err != nil {
			t.Fatal(err)
		}
		each(t, es, func(self int, e *Engine) error { // what follows has arrived
			if self == 0 {
				return e.Send(to(0, 1, 7), nil, Standard)
			}
			_, err := e.Recv(from(0, 7), nil)
			return err
		})
		if _, stored := es[1].Contexts().QueueLengths(left); stored != 0 {
			t.Errorf("%d bytes: %d messages are stored", n, stored)
		}
	}
}
