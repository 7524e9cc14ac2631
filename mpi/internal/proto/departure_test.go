package proto

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
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
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the call blocks")
		return nil
	}
}

// TestWatchFails: the connection that WATCH needs cannot be made. The goroutine that was about to sleep, and those on the
// condition, return this failure.
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
