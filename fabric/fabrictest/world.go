package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/leakcheck"
)

// errStopped ends the loops of the other peers when one has failed.
var errStopped = errors.New("stopped, since another peer failed")

// world is a set of peers in this process.
type world struct {
	t       testing.TB
	peers   []*peer
	timeout time.Duration // how long the test waits for something that does not happen
	failed  atomic.Bool   // a peer has failed, or the watchdog has expired
}

// hangTimeout returns how long a test may wait for something that does not happen: two minutes, or three quarters of the time
// until the test's deadline.
func hangTimeout(t testing.TB) time.Duration {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return min(2*time.Minute, time.Until(end)*3/4)
		}
	}
	return 2 * time.Minute
}

// newWorld opens n domains. When the test ends it closes them and checks for leaks.
func newWorld(t testing.TB, peers Peers, n int) *world {
	t.Helper()
	before := leakcheck.Take(t, leakcheck.Files)
	t.Cleanup(func() { before.Compare(t) }) // runs after everything that is cleaned up below
	w := &world{t: t, timeout: hangTimeout(t)}
	for i, tr := range peers(t, n) {
		w.peers = append(w.peers, &peer{w: w, self: i, transport: tr, woken: make(chan struct{}, 1)})
	}
	t.Cleanup(w.close)
	ctx, cancel := context.WithCancel(t.Context())
	// It ends before the tests begin: a domain that is open does not need it.
	defer cancel()
	w.each(func(p *peer) error { return p.open(ctx, n) }) // concurrently: one may wait for the others
	return w
}

// newConnected opens n domains, connects each to each, and sends one message over every connection.
func newConnected(t testing.TB, peers Peers, n int) *world {
	t.Helper()
	w := newWorld(t, peers, n)
	w.each(func(p *peer) error {
		for i := range w.peers {
			if err := p.connect(i); err != nil {
				return err
			}
		}
		return p.barrier()
	})
	return w
}

func (w *world) close() {
	var all sync.WaitGroup // one may wait for another that sleeps
	for _, p := range w.peers {
		if p.Domain == nil {
			continue
		}
		all.Go(func() {
			if err := p.Close(); err != nil {
				w.t.Errorf("peer %d: close: %v", p.self, err)
			}
		})
	}
	all.Wait()
}

// each runs f for every peer in a goroutine of its own and waits for all. It fails the test if one returns an error.
func (w *world) each(f func(p *peer) error) {
	w.t.Helper()
	w.runOn(f, w.peers...)
}

// runOn is each for some of the peers.
func (w *world) runOn(f func(p *peer) error, peers ...*peer) {
	w.t.Helper()
	errs := make(chan error, len(peers))
	for _, p := range peers {
		go func() {
			err := errors.New("the goroutine has exited")
			defer func() { errs <- err }()
			if err = f(p); err != nil {
				w.failed.Store(true)
				err = fmt.Errorf("peer %d: %w", p.self, err)
			}
		}()
	}
	w.awaitAll(errs, len(peers))
}

// runAlone runs f in one goroutine, which may use all peers, under the watchdog.
func (w *world) runAlone(f func() error) {
	w.t.Helper()
	w.runOn(func(*peer) error { return f() }, w.peers[0])
}

// awaitAll receives n errors and fails the test with the first that is not a consequence of another. It fails the test after
// the timeout.
func (w *world) awaitAll(errs <-chan error, n int) {
	w.t.Helper()
	watchdog := time.NewTimer(w.timeout)
	defer watchdog.Stop()
	var first error
	for range n {
		select {
		case err := <-errs:
			if first == nil || errors.Is(first, errStopped) {
				first = err
			}
		case <-watchdog.C:
			w.failed.Store(true)
			stacks := make([]byte, 1<<20)
			w.t.Fatalf("no end after %v\n%s", w.timeout, stacks[:runtime.Stack(stacks, true)])
		}
	}
	if first != nil {
		w.t.Fatal(first)
	}
}
