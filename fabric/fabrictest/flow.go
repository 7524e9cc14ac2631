package fabrictest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// traffic is a numbered stream of messages between two peers, whose sizes, at least 1, and bytes follow from their
// numbers.
type traffic struct {
	from, to int
	limit    int // largest size
	count    uint64
}

func (f *traffic) next() (size int, seed uint64) {
	seed = uint64(f.from)<<40 | uint64(f.to)<<32 | f.count
	f.count++
	return 1 + int(seed*0x9e3779b97f4a7c15>>33)%f.limit, seed
}

// make returns the next message.
func (f *traffic) make() []byte {
	size, seed := f.next()
	return fill(make([]byte, size), seed)
}

// check checks the next message.
func (f *traffic) check(ev fabric.Event) error {
	number := f.count
	size, seed := f.next()
	err := check(ev.Data, size, seed)
	switch {
	case ev.Kind != fabric.Message || int(ev.Peer) != f.from || ev.Err != nil:
		err = fmt.Errorf("unexpected event %+v", ev)
	case err == nil:
		return nil
	}
	return fmt.Errorf("message %d from %d to %d: %w", number, f.from, f.to, err)
}

// checkDataValid: the bytes of an event do not change until the next Poll, whatever the sender does meanwhile.
func checkDataValid(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	w.runAlone(func() error {
		a, b := w.peers[0], w.peers[1]
		out := traffic{from: 0, to: 1, limit: min(a.caps.MaxSend, 2000)}
		in := out
		pour := func() error {
			for range 200 {
				back := out
				if err := a.eps[1].Send(nil, out.make()); err == fabric.ErrAgain {
					out = back
					return nil
				} else if err != nil {
					return err
				}
			}
			return nil
		}
		evs := make([]fabric.Event, 4)
		for round := 0; round < 100 || in.count < out.count; round++ {
			if round < 100 {
				if err := pour(); err != nil {
					return err
				}
			}
			n, err := b.Poll(evs)
			if err != nil {
				return err
			}
			borrowed := in
			if round < 100 {
				if err := pour(); err != nil {
					return err
				}
			}
			for range 2 {
				in = borrowed
				for _, ev := range evs[:n] {
					if err := in.check(ev); err != nil {
						return err
					}
				}
				if err := a.progress(); err != nil { // the Poll of another domain does not end their validity
					return err
				}
			}
		}
		return nil
	})
}

// checkSlices: Poll fills slices of any length, also of none, and loses no event.
func checkSlices(t *testing.T, peers Peers) {
	const count = 500
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		limit := min(p.caps.MaxSend, 100)
		if p.self != 0 {
			out := traffic{from: p.self, to: 0, limit: limit}
			for range count {
				if err := p.send(0, out.make(), nil); err != nil {
					return err
				}
			}
			return p.barrier()
		}
		in := []traffic{{}, {from: 1, to: 0, limit: limit}, {from: 2, to: 0, limit: limit}}
		sizes := []int{0, 1, 1, 2, 7, 64}
		for i := 0; in[1].count+in[2].count < 2*count; i++ {
			evs := make([]fabric.Event, sizes[i%len(sizes)])
			n, err := p.Poll(evs)
			if err != nil {
				return err
			}
			if n > len(evs) {
				return fmt.Errorf("%d events for a slice of %d", n, len(evs))
			}
			for _, ev := range evs[:n] {
				if ev.Peer != 1 && ev.Peer != 2 {
					return fmt.Errorf("an event of an unknown peer: %+v", ev)
				}
				if in[ev.Peer].count == count {
					p.queue = append(p.queue, fabric.Event{Kind: ev.Kind, Peer: ev.Peer, Data: slices.Clone(ev.Data)}) // of the barrier
				} else if err := in[ev.Peer].check(ev); err != nil {
					return err
				}
			}
			if n == 0 && p.w.failed.Load() {
				return errStopped
			}
		}
		return p.barrier()
	})
}

// checkFlood: two peers that send to each other, and poll only when a Send is refused, do not block each other. A peer ends after
// some refusals. It also ends after many bytes: if the other one is faster, its Sends are refused, so it polls all the time, and
// never refuses anything itself.
func checkFlood(t *testing.T, peers Peers) {
	const refusals, most = 20, 64 << 20
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		other := 1 - p.self
		out := traffic{from: p.self, to: other, limit: p.caps.MaxSend}
		in := traffic{from: other, to: p.self, limit: p.caps.MaxSend}
		sent := 0
		for p.refusals = 0; p.refusals < refusals && sent < most; {
			b := out.make()
			if err := p.send(other, nil, b); err != nil {
				return err
			}
			sent += len(b)
		}
		if err := p.send(other, nil, nil); err != nil { // the end
			return err
		}
		for {
			ev, err := p.next(other)
			if err != nil {
				return err
			}
			if ev.Kind == fabric.Message && len(ev.Data) == 0 {
				return nil
			}
			if err := in.check(ev); err != nil {
				return err
			}
		}
	})
}

// checkAllToAll: streams between many peers do not disturb each other.
func checkAllToAll(t *testing.T, peers Peers) {
	const n, count = 8, 60
	w := newConnected(t, peers, n)
	w.each(func(p *peer) error {
		limit := min(p.caps.MaxSend, 4000)
		var out, in [n]traffic
		for i := range n {
			out[i] = traffic{from: p.self, to: i, limit: limit}
			in[i] = traffic{from: i, to: p.self, limit: limit}
		}
		for i := range n * count {
			to := (p.self + i) % n
			b := out[to].make()
			if err := p.send(to, b[:len(b)/2], b[len(b)/2:]); err != nil {
				return err
			}
		}
		for i := range n * count {
			ev, err := p.next(i % n)
			if err != nil {
				return err
			}
			if err := in[i%n].check(ev); err != nil {
				return err
			}
		}
		return p.barrier()
	})
}
