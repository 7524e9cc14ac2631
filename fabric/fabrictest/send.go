package fabrictest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// checkOpen: the address and limits of a domain are valid and constant, and a peer outside the set cannot open one.
func checkOpen(t *testing.T, peers Peers) {
	w := newWorld(t, peers, 2)
	w.each(func(p *peer) error {
		c := p.caps
		switch {
		case p.transport.Name() == "":
			return errors.New("the transport has no name")
		case len(p.Addr()) > 256 || !slices.Equal(p.Addr(), p.Addr()):
			return fmt.Errorf("address of %d bytes, or one that changes", len(p.Addr()))
		case c.MaxSend < 256 || c.Eager < 0 || c.Eager > c.MaxSend:
			return fmt.Errorf("limits that do not fit each other, or leave no room for a header: %+v", c)
		case c != p.Caps():
			return fmt.Errorf("limits change: %+v, %+v", c, p.Caps())
		}
		return nil
	})
	for _, self := range []int{-1, 2} {
		if d, err := peers(t, 2)[0].Open(t.Context(), &fabric.Config{Self: self, Size: 2}); err == nil {
			t.Errorf("peer %d of 2 opens: %v", self, d.Close())
		}
	}
}

// checkConnect: an endpoint is created once, also if both sides connect concurrently, and only to peers of the set.
func checkConnect(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.each(func(p *peer) error {
		for to, ep := range p.eps {
			again, err := p.Connect(to, w.peers[to].Addr())
			if err != nil || again != ep {
				return fmt.Errorf("connecting again to %d: another endpoint, or %w", to, err)
			}
		}
		for _, to := range []int{-1, 3} {
			if _, err := p.Connect(to, nil); err == nil {
				return fmt.Errorf("connects to peer %d of 3", to)
			}
		}
		return p.barrier()
	})
}

// checkOneSide: a peer without connections can be sent to, and connects after it has received.
func checkOneSide(t *testing.T, peers Peers) {
	w := newWorld(t, peers, 2)
	const count = 100
	w.each(func(p *peer) error {
		if p.self == 0 {
			if err := p.connect(1); err != nil {
				return err
			}
			for i := range count {
				if err := p.send(1, fill(make([]byte, i), uint64(i)), nil); err != nil {
					return err
				}
			}
			return p.expect(1, 10, 0)
		}
		for i := range count {
			if err := p.expect(0, i, uint64(i)); err != nil {
				return err
			}
		}
		if err := p.connect(0); err != nil {
			return err
		}
		return p.send(0, nil, fill(make([]byte, 10), 0))
	})
}

// lengths returns all short lengths, those around the powers of two, and the last ones up to limit.
func lengths(limit int) []int {
	var l []int
	for n := range min(limit, 300) + 1 {
		l = append(l, n)
	}
	for n := 512; n <= limit; n *= 2 {
		l = append(l, n-9, n-8, n-1, n, n+1, n+8)
	}
	for n := max(0, limit-16); n <= limit; n++ {
		l = append(l, n)
	}
	return slices.DeleteFunc(l, func(n int) bool { return n > limit })
}

// checkLengths: messages of every length, split differently between header and payload, arrive whole and in order.
func checkLengths(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	w.each(func(p *peer) error {
		for i, n := range lengths(p.caps.MaxSend) {
			for j, split := range []int{0, n, n / 3} {
				seed := uint64(i*3 + j)
				b := fill(make([]byte, n), seed)
				if p.self == 0 {
					if err := p.send(1, b[:split], b[split:]); err != nil {
						return err
					}
				} else if err := p.expect(0, n, seed); err != nil {
					return fmt.Errorf("header of %d and payload of %d bytes: %w", split, n-split, err)
				}
			}
		}
		return nil
	})
}

// checkCopies: a message has the bytes that the buffers held when Send was called.
func checkCopies(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	const count = 500
	w.each(func(p *peer) error {
		size := min(p.caps.MaxSend, 1000)
		b := make([]byte, size)
		for i := range count {
			if p.self == 1 {
				if err := p.expect(0, size, uint64(i)); err != nil {
					return err
				}
				continue
			}
			fill(b, uint64(i))
			if err := p.send(1, b[:100], b[100:]); err != nil {
				return err
			}
			clear(b)
		}
		return nil
	})
}

// checkTooLong: a message longer than the limit is an error without further effect.
func checkTooLong(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	w.runAlone(func() error {
		a, b := w.peers[0], w.peers[1]
		for _, header := range []int{0, 1, a.caps.MaxSend + 1} {
			long := make([]byte, a.caps.MaxSend+1)
			if err := a.eps[1].Send(long[:header], long[header:]); err == nil || err == fabric.ErrAgain {
				return fmt.Errorf("a message of %d bytes, where %d are allowed: %v", len(long), a.caps.MaxSend, err)
			}
		}
		if err := a.send(1, nil, fill(make([]byte, 20), 1)); err != nil {
			return err
		}
		return b.expect(0, 20, 1)
	})
}

// checkWindow: a peer that does not poll stops its sender with ErrAgain, and then receives exactly what was accepted.
func checkWindow(t *testing.T, peers Peers) {
	const limit = 1 << 30 // bytes; a longer queue is considered unbounded
	w := newConnected(t, peers, 2)
	for _, size := range []int{0, 8, w.peers[0].caps.MaxSend} {
		w.runAlone(func() error {
			a, b := w.peers[0], w.peers[1]
			sent := 0
			for ; ; sent++ {
				err := a.eps[1].Send(nil, fill(make([]byte, size), uint64(sent)))
				if err == fabric.ErrAgain {
					break
				}
				if err != nil {
					return err
				}
				if (sent+1)*(size+64) > limit {
					return fmt.Errorf("%d messages of %d bytes are queued", sent, size)
				}
			}
			for i := range sent {
				if err := b.expect(0, size, uint64(i)); err != nil {
					return fmt.Errorf("message %d of %d: %w", i, sent, err)
				}
			}
			// The refused message was not sent in part, and there is room again.
			if err := a.send(1, fill(make([]byte, 5), 99), nil); err != nil {
				return err
			}
			return b.expect(0, 5, 99)
		})
	}
}

// checkSelf: a peer can send to itself, also if it is the only one.
func checkSelf(t *testing.T, peers Peers) {
	const count = 2000
	for _, n := range []int{1, 2} {
		w := newConnected(t, peers, n)
		w.each(func(p *peer) error {
			for i := range count {
				if err := p.send(p.self, nil, fill(make([]byte, i%100), uint64(i))); err != nil {
					return err
				}
			}
			for i := range count {
				if err := p.expect(p.self, i%100, uint64(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
