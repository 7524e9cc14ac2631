package fabrictest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// errStopped ends the loops of the other peers when one has failed.
var errStopped = errors.New("stopped, since another peer failed")

// world is a set of peers in this process.
type world struct {
	t     testing.TB
	peers []*peer
	hang  time.Duration // how long something that does not come is waited for
	stop  atomic.Bool   // somebody has failed
}

// patience is how long a test may wait for what does not come: minutes, or somewhat less than what is left to it.
func patience(t testing.TB) time.Duration {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return min(2*time.Minute, time.Until(end)*3/4)
		}
	}
	return 2 * time.Minute
}

// newWorld opens n domains. When the test ends they are closed, and leaks looked for.
func newWorld(t testing.TB, peers Peers, n int) *world {
	t.Helper()
	before := takeCensus(t)
	t.Cleanup(func() { before.compare(t) }) // runs after everything that is cleaned up below
	w := &world{t: t, hang: patience(t)}
	for i, tr := range peers(t, n) {
		w.peers = append(w.peers, &peer{w: w, self: i, transport: tr, woken: make(chan struct{}, 1)})
	}
	t.Cleanup(w.close)
	ctx, cancel := context.WithTimeout(t.Context(), w.hang)
	defer cancel()
	w.each(func(p *peer) error { return p.open(ctx, n) }) // at once: one may wait for the others
	return w
}

// newConnected opens n domains, connects each with each, and lets a message cross every way.
func newConnected(t testing.TB, peers Peers, n int) *world {
	t.Helper()
	w := newWorld(t, peers, n)
	w.each(func(p *peer) error {
		for i := range w.peers {
			if err := p.connect(i); err != nil {
				return err
			}
		}
		return p.meet()
	})
	return w
}

// meet sends an empty message to every peer and takes one from each; nothing else may have been on its way.
func (p *peer) meet() error {
	for i := range p.w.peers {
		if err := p.send(i, nil, nil); err != nil {
			return err
		}
	}
	for i := range p.w.peers {
		if err := p.expect(i, 0, 0); err != nil {
			return fmt.Errorf("meeting: %w", err)
		}
	}
	return nil
}

func (w *world) close() {
	for _, p := range w.peers {
		if p.Domain == nil {
			continue
		}
		if err := p.Close(); err != nil {
			w.t.Errorf("peer %d: close: %v", p.self, err)
		}
	}
}

// each runs f for every peer in a goroutine of its own and waits for all. It fails the test if one returns an error.
func (w *world) each(f func(p *peer) error) {
	w.t.Helper()
	w.some(f, w.peers...)
}

// some is each for some of the peers.
func (w *world) some(f func(p *peer) error, peers ...*peer) {
	w.t.Helper()
	errs := make(chan error, len(peers))
	for _, p := range peers {
		go func() {
			err := errors.New("the goroutine has ended by itself")
			defer func() { errs <- err }()
			if err = f(p); err != nil {
				w.stop.Store(true)
				err = fmt.Errorf("peer %d: %w", p.self, err)
			}
		}()
	}
	w.await(errs, len(peers))
}

// one runs f, which may use all peers by itself, under the watchdog.
func (w *world) one(f func() error) {
	w.t.Helper()
	w.some(func(*peer) error { return f() }, w.peers[0])
}

// await takes n errors, fails the test with the first that matters, and gives up on what hangs.
func (w *world) await(errs <-chan error, n int) {
	w.t.Helper()
	watchdog := time.NewTimer(w.hang)
	defer watchdog.Stop()
	var first error
	for range n {
		select {
		case err := <-errs:
			if first == nil || errors.Is(first, errStopped) {
				first = err
			}
		case <-watchdog.C:
			w.stop.Store(true)
			stacks := make([]byte, 1<<20)
			w.t.Fatalf("hangs since %v\n%s", w.hang, stacks[:runtime.Stack(stacks, true)])
		}
	}
	if first != nil {
		w.t.Fatal(first)
	}
}

// peer is a domain with what a program keeps beside it.
type peer struct {
	fabric.Domain
	w         *world
	transport fabric.Transport
	self      int
	caps      fabric.Caps
	ways      []fabric.Endpoint // by peer, nil until connected
	woken     chan struct{}     // holds a token once Wake was called
	evs       [1]fabric.Event
	kept      []fabric.Event // copies of what arrived while something else was waited for
	tokens    uint64         // used so far
	refused   int            // how often send was answered ErrAgain
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
	p.Domain, p.caps, p.ways = d, d.Caps(), make([]fabric.Endpoint, n)
	return nil
}

func (p *peer) connect(to int) error {
	ep, err := p.Connect(to, p.w.peers[to].Addr())
	if err != nil {
		return fmt.Errorf("connect to %d: %w", to, err)
	}
	p.ways[to] = ep
	return nil
}

// poll takes one event, if there is one. Its data is lent.
func (p *peer) poll() (fabric.Event, bool, error) {
	n, err := p.Poll(p.evs[:])
	if err == nil && n == 0 && p.w.stop.Load() {
		err = errStopped
	}
	return p.evs[0], n == 1, err
}

// keep polls once, and copies an event that came. If none did, it lets others run.
func (p *peer) keep() error {
	kept, err := p.tryKeep()
	if !kept {
		runtime.Gosched()
	}
	return err
}

// tryKeep is keep for a peer that would rather sleep. It reports whether an event came.
func (p *peer) tryKeep() (bool, error) {
	ev, ok, err := p.poll()
	if ok {
		ev.Data = slices.Clone(ev.Data)
		p.kept = append(p.kept, ev)
	}
	return ok, err
}

// send sends a message as soon as there is room. What arrives meanwhile is kept.
func (p *peer) send(to int, header, payload []byte) error {
	for {
		err := p.ways[to].Send(header, payload)
		if err == nil {
			return nil
		}
		if err != fabric.ErrAgain {
			return fmt.Errorf("send %d+%d bytes to %d: %w", len(header), len(payload), to, err)
		}
		p.refused++
		if err := p.keep(); err != nil {
			return err
		}
	}
}

// next waits for the next message from a peer, or the word that it has gone.
func (p *peer) next(from int) (fabric.Event, error) {
	for {
		for i, ev := range p.kept {
			if ev.Kind != fabric.Done && int(ev.Peer) == from {
				p.kept = slices.Delete(p.kept, i, i+1)
				return ev, nil
			}
		}
		if err := p.keep(); err != nil {
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

// expect receives a message and compares it.
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
		for i, ev := range p.kept {
			if ev.Kind == fabric.Done && ev.Token == token {
				p.kept = slices.Delete(p.kept, i, i+1)
				return ev.Err
			}
		}
		if err := p.keep(); err != nil {
			return err
		}
	}
}

// fill makes bytes that no other seed makes, and returns them.
func fill(b []byte, seed uint64) []byte {
	x := seed*0x9e3779b97f4a7c15 + 1
	for rest := b; len(rest) > 0; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		if len(rest) < 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], x)
			copy(rest, word[:])
			break
		}
		binary.LittleEndian.PutUint64(rest, x)
		rest = rest[8:]
	}
	return b
}

// check compares bytes with what fill made of the seed.
func check(b []byte, size int, seed uint64) error {
	if len(b) != size {
		return fmt.Errorf("%d bytes instead of %d", len(b), size)
	}
	want := fill(make([]byte, size), seed)
	if bytes.Equal(b, want) {
		return nil
	}
	i := 0
	for b[i] == want[i] {
		i++
	}
	return fmt.Errorf("byte %d of %d is %#x instead of %#x", i, size, b[i], want[i])
}
