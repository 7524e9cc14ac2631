package fabrictest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// buffer is registered memory of a peer.
type buffer struct {
	fabric.Region
	b []byte
}

func (p *peer) register(b []byte) (buffer, error) {
	r, err := p.Register(b)
	return buffer{r, b}, err
}

// at returns the key of byte off, which may be outside the region.
func (e buffer) at(off uint64) fabric.RemoteKey {
	return fabric.RemoteKey{Addr: e.Remote.Addr + off, Key: e.Remote.Key}
}

// transferFunc is a Read or a Write that waits for its end.
type transferFunc func(p *peer, b buffer, to int, k fabric.RemoteKey) error

func read(p *peer, b buffer, from int, k fabric.RemoteKey) error {
	return p.transfer(func(token uint64) (bool, error) { return p.eps[from].Read(b.b, b.Region, k, token) })
}

func write(p *peer, b buffer, to int, k fabric.RemoteKey) error {
	return p.transfer(func(token uint64) (bool, error) { return p.eps[to].Write(b.b, b.Region, k, token) })
}

// eachTransfer runs a check with three fresh peers for Read and for Write. A call that the limits exclude must return
// ErrNotSupported instead.
func eachTransfer(t *testing.T, peers Peers, f func(w *world, name string, m transferFunc) error) {
	for name, m := range map[string]transferFunc{"Read": read, "Write": write} {
		t.Run(name, func(t *testing.T) {
			w := newConnected(t, peers, 3)
			w.runAlone(func() error {
				p := w.peers[0]
				if able := map[string]bool{"Read": p.caps.Read, "Write": p.caps.Write}; able[name] {
					return f(w, name, m)
				}
				if err := m(p, buffer{b: make([]byte, 8)}, 1, fabric.RemoteKey{}); !errors.Is(err, fabric.ErrNotSupported) {
					return fmt.Errorf("not supported according to the limits, but: %w", err)
				}
				return nil
			})
		})
	}
}

// checkTransferSizes: blocks of many sizes and offsets arrive where they should and nowhere else, without a Poll of the peer.
func checkTransferSizes(t *testing.T, peers Peers) {
	sizes := []int{0, 1, 7, 8, 9, 63, 64, 65, 1000, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 1<<20 + 3}
	eachTransfer(t, peers, func(w *world, name string, m transferFunc) error {
		for i, size := range sizes {
			for _, off := range []int{0, 1, 29} {
				if err := w.transferOne(name, m, size, off, uint64(i)); err != nil {
					return fmt.Errorf("%d bytes at %d: %w", size, off, err)
				}
			}
		}
		return nil
	})
}

// transferOne moves a block between the middle of two regions and checks the whole destination.
func (w *world) transferOne(name string, m transferFunc, size, off int, seed uint64) error {
	const margin, mark = 64, 0x5a
	a, b := w.peers[0], w.peers[1]
	near, err := a.register(make([]byte, margin+size))
	if err != nil {
		return err
	}
	far, err := b.register(make([]byte, margin+size))
	if err != nil {
		return err
	}
	src, dst, from, to := far.b, near.b, off, margin/2
	if name == "Write" {
		src, dst, from, to = near.b, far.b, margin/2, off
	}
	fill(src[from:][:size], seed)
	for i := range dst {
		dst[i] = mark
	}
	local := buffer{near.Region, near.b[margin/2:][:size]}
	if err := m(a, local, 1, far.at(uint64(off))); err != nil {
		return err
	}
	if err := check(dst[to:][:size], size, seed); err != nil {
		return err
	}
	for i, x := range dst {
		if (i < to || i >= to+size) && x != mark {
			return fmt.Errorf("byte %d of %d has changed", i, len(dst))
		}
	}
	return errors.Join(a.Deregister(near.Region), b.Deregister(far.Region))
}

// checkTransferRange: memory outside a region, or outside all memory, cannot be accessed.
func checkTransferRange(t *testing.T, peers Peers) {
	const size = 1000
	for _, c := range []struct {
		name string
		off  uint64
		n    int
	}{
		{"Longer", 0, size + 1},
		{"Across", size - 1, 2},
		{"Behind", size, 1},
		{"Far", 1 << 40, 8},
		{"Before", math.MaxUint64, 1},
		{"Around", math.MaxUint64 - 3, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachTransfer(t, peers, func(w *world, _ string, m transferFunc) error {
				far, err := w.peers[1].register(make([]byte, size))
				if err != nil {
					return err
				}
				k := far.at(c.off)
				if w.peers[0].caps.Direct {
					k = fabric.RemoteKey{Addr: c.off & 0xff} // any memory may be named, but there is none in the first page
				}
				near, err := w.peers[0].register(make([]byte, c.n))
				if err != nil {
					return err
				}
				if err := m(w.peers[0], near, 1, k); err == nil || err == fabric.ErrAgain {
					return fmt.Errorf("%d bytes at %d of a region of %d: %v", c.n, c.off, size, err)
				}
				return nil
			})
		})
	}
}

// checkTransferKeys: a key gives access to memory of the peer that registered it, until it is deregistered. Without registration
// (Caps.Direct) memory stays accessible.
func checkTransferKeys(t *testing.T, peers Peers) {
	for name, invalidate := range map[string]func(w *world, near, far *buffer) error{
		"Stale": func(w *world, _, far *buffer) error { return w.peers[1].Deregister(far.Region) },
		"Reused": func(w *world, _, far *buffer) error {
			if err := w.peers[1].Deregister(far.Region); err != nil {
				return err
			}
			_, err := w.peers[1].register(make([]byte, 64)) // may reuse the slot of a table
			return err
		},
		"Foreign": func(w *world, _, far *buffer) (err error) {
			*far, err = w.peers[2].register(make([]byte, 64))
			return err
		},
		"Zero":      func(_ *world, _, far *buffer) error { far.Remote.Key = 0; return nil },
		"Forged":    func(_ *world, _, far *buffer) error { far.Remote.Key ^= 1 << 32; return nil },
		"Local":     func(w *world, near, _ *buffer) error { return w.peers[0].Deregister(near.Region) },
		"LocalZero": func(_ *world, near, _ *buffer) error { near.Region = fabric.Region{}; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachTransfer(t, peers, func(w *world, _ string, m transferFunc) error {
				near, err := w.peers[0].register(make([]byte, 64))
				if err != nil {
					return err
				}
				far, err := w.peers[1].register(make([]byte, 64))
				if err != nil {
					return err
				}
				if err := invalidate(w, &near, &far); err != nil {
					return err
				}
				err = m(w.peers[0], near, 1, far.at(0))
				if direct := w.peers[0].caps.Direct; direct && err != nil || !direct && (err == nil || err == fabric.ErrAgain) {
					return fmt.Errorf("with limits %+v: %w", w.peers[0].caps, err)
				}
				return nil
			})
		})
	}
}

// checkRegions: the same bytes may be registered twice and then need two calls; registrations do not run out.
func checkRegions(t *testing.T, peers Peers) {
	eachTransfer(t, peers, func(w *world, _ string, m transferFunc) error {
		a, b := w.peers[0], w.peers[1]
		mem := make([]byte, 64)
		near, err := a.register(make([]byte, 64))
		if err != nil {
			return err
		}
		first, err := b.register(mem)
		if err != nil {
			return err
		}
		for range 2000 {
			second, err := b.register(mem)
			if err != nil {
				return err
			}
			if err := b.Deregister(second.Region); err != nil {
				return err
			}
		}
		if err := m(a, near, 1, first.at(0)); err != nil {
			return err
		}
		if none, err := b.register(nil); err != nil || b.Deregister(none.Region) != nil {
			return fmt.Errorf("registering no bytes: %w", err)
		}
		if err := b.Deregister(first.Region); err != nil {
			return err
		}
		if err := b.Deregister(first.Region); err == nil && !b.caps.Direct {
			return errors.New("the second Deregister of a region succeeds: want an error")
		}
		return nil
	})
}

// checkTransferConcurrent: two goroutines transfer while a third calls the other methods of the same domain.
func checkTransferConcurrent(t *testing.T, peers Peers) {
	const size = 3000
	eachTransfer(t, peers, func(w *world, name string, _ transferFunc) error {
		a, b := w.peers[0], w.peers[1]
		errs, quit := make(chan error, 3), make(chan struct{})
		defer close(quit)
		ended := [2]chan fabric.Event{make(chan fabric.Event, 1), make(chan fabric.Event, 1)}
		var blocks [2][2]buffer
		for k := range blocks {
			var err1, err2 error
			blocks[k][0], err1 = a.register(make([]byte, size))
			blocks[k][1], err2 = b.register(make([]byte, size))
			fill(blocks[k][map[string]int{"Read": 1, "Write": 0}[name]].b, uint64(k))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
		}
		for k := range blocks {
			go func() { errs <- transferRepeatedly(a, name, blocks[k], k, ended[k], quit) }()
		}
		for open := 2; open > 0; {
			select {
			case err := <-errs:
				if err != nil {
					return err
				}
				open--
			default:
			}
			if err := a.send(1, []byte("ping"), nil); err != nil {
				return err
			}
			if _, err := b.receive(0); err != nil {
				return err
			}
			if err := a.progress(); err != nil {
				return err
			}
			for _, ev := range a.queue {
				if ev.Kind != fabric.Done {
					return fmt.Errorf("unexpected event %+v", ev)
				}
				ended[ev.Token%2] <- ev
			}
			a.queue = a.queue[:0]
		}
		return errors.Join(check(blocks[0][0].b, size, 0), check(blocks[0][1].b, size, 0),
			check(blocks[1][0].b, size, 1), check(blocks[1][1].b, size, 1))
	})
}

// transferRepeatedly transfers blocks again and again. Its tokens are odd if k is odd.
func transferRepeatedly(a *peer, name string, blocks [2]buffer, k int, ended <-chan fabric.Event, quit <-chan struct{}) error {
	start := a.eps[1].Read
	if name == "Write" {
		start = a.eps[1].Write
	}
	for i := range 200 {
		token := uint64(i*2 + k)
		done, err := start(blocks[0].b, blocks[0].Region, blocks[1].at(0), token)
		if err == nil && !done {
			select {
			case ev := <-ended:
				if err = ev.Err; ev.Token != token {
					err = fmt.Errorf("the completion of %d instead of %d: %+v", ev.Token, token, ev)
				}
			case <-quit:
				return errStopped
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
