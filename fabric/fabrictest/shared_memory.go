package fabrictest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// newSharingWorld opens n peers. It reports false if their domains do not have shared memory, so that there is nothing to check.
func newSharingWorld(t *testing.T, peers Peers, n int) (*world, bool) {
	w := newConnected(t, peers, n)
	for _, p := range w.peers {
		if _, ok := p.Domain.(fabric.SharedMemory); !ok {
			t.Logf("%s does not share memory", p.transport.Name())
			return nil, false
		}
	}
	return w, true
}

// segment maps a segment. It polls until enough of the other peers have joined.
func (p *peer) segment(id uint64, peers []int, size int) (fabric.Segment, error) {
	for {
		s, err := p.Domain.(fabric.SharedMemory).Segment(id, peers, size)
		if err == nil {
			return s, nil
		}
		if err != fabric.ErrAgain {
			return nil, fmt.Errorf("segment %d of %d bytes for %v: %w", id, size, peers, err)
		}
		if err := p.progress(); err != nil {
			return nil, err
		}
	}
}

// checkSegment: segments are zeroed, aligned and shared by all peers, and their ids may be used again.
func checkSegment(t *testing.T, peers Peers) {
	w, ok := newSharingWorld(t, peers, 3)
	if !ok {
		return
	}
	w.each(func(p *peer) error {
		for _, group := range [][]int{{p.self}, {0, 1, 2}, {0, 2}, {1, 2}} {
			for _, size := range []int{1, 128, 4097, 200_000} {
				for id := range uint64(2) {
					id += 7
					if len(group) == 1 {
						id += 10 * uint64(p.self+1)
					}
					if err := p.useSegment(id, group, size); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// useSegment has the peers of a group each allocate a part of a segment, write some bytes of it, interleaved, and read all of it.
func (p *peer) useSegment(id uint64, group []int, size int) error {
	me := slices.Index(group, p.self)
	if me < 0 {
		return p.barriers(5)
	}
	s, err := p.segment(id, group, size)
	if err != nil {
		return err
	}
	b := s.Bytes()
	if err := s.Allocate(b[size*me/len(group) : size*(me+1)/len(group)]); err != nil {
		return err
	}
	if err := p.barriers(1); err != nil { // all of it has been allocated
		return err
	}
	switch i := slices.IndexFunc(b, func(x byte) bool { return x != 0 }); {
	case len(b) != size || misalignment(b, 128) != 0:
		return fmt.Errorf("%d bytes at %d after a multiple of 128 instead of %d", len(b), misalignment(b, 128), size)
	case i >= 0:
		return fmt.Errorf("byte %d of a new segment of %d is %#x", i, size, b[i])
	}
	if err := p.barriers(1); err != nil { // all have read zeros
		return err
	}
	want := fill(make([]byte, size), id)
	for i := me; i < size; i += len(group) {
		b[i] = want[i]
	}
	if err := p.barriers(1); err != nil { // all have written
		return err
	}
	if err := check(b, size, id); err != nil {
		return fmt.Errorf("segment %d for %v: %w", id, group, err)
	}
	if err := p.barriers(1); err != nil { // all have read
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return p.barriers(1) // all have closed, and the id is free
}

func (p *peer) barriers(n int) error {
	for range n {
		if err := p.barrier(); err != nil {
			return err
		}
	}
	return nil
}

// checkSegmentMisuse: invalid arguments are an error, and never ErrAgain.
func checkSegmentMisuse(t *testing.T, peers Peers) {
	w, ok := newSharingWorld(t, peers, 3)
	if !ok {
		return
	}
	w.runAlone(func() error {
		for i, c := range []struct {
			peers []int
			size  int
		}{{[]int{0}, 0}, {[]int{0}, -1}, {nil, 8}, {[]int{1, 2}, 8}, {[]int{1, 0}, 8}, {[]int{0, 3}, 8}, {[]int{-1, 0}, 8}} {
			s, err := w.peers[0].Domain.(fabric.SharedMemory).Segment(uint64(i+1), c.peers, c.size)
			if err == nil {
				return errors.Join(fmt.Errorf("segment of %d bytes for %v", c.size, c.peers), s.Close())
			}
			if err == fabric.ErrAgain {
				return fmt.Errorf("segment of %d bytes for %v: waits", c.size, c.peers)
			}
		}
		return nil
	})
}

// checkWake: a peer that waits for a word of shared memory arms, checks the word once more, sleeps, and is woken by Wake.
func checkWake(t *testing.T, peers Peers) {
	const count = 3000
	w, ok := newSharingWorld(t, peers, 2)
	if !ok {
		return
	}
	w.each(func(p *peer) error {
		s, err := p.segment(1, []int{0, 1}, 256)
		if err != nil {
			return err
		}
		if err := s.Allocate(s.Bytes()); err != nil {
			return err
		}
		mine, other := wordAt(s.Bytes(), p.self*16), wordAt(s.Bytes(), (1-p.self)*16)
		for i := uint64(1); i <= count; i++ {
			if p.self == 0 {
				mine.Store(i)
				p.Domain.(fabric.SharedMemory).Wake(1)
			}
			for there := func() (bool, error) { return other.Load() >= i, nil }; other.Load() < i; {
				if _, err := p.tryProgress(); err != nil {
					return err
				}
				if err := p.sleep(there); err != nil {
					return err
				}
			}
			if p.self == 1 {
				mine.Store(i)
				p.Domain.(fabric.SharedMemory).Wake(0)
			}
		}
		return errors.Join(p.barrier(), s.Close())
	})
}

// checkSegmentSleep: a peer that sleeps until the first peer of a segment has joined is woken by a message, also if it asks for
// the segment once more after Arm, and by the segment.
func checkSegmentSleep(t *testing.T, peers Peers) {
	w, ok := newSharingWorld(t, peers, 2)
	if !ok {
		return
	}
	w.runAlone(func() error {
		for i := range uint64(20) {
			if err := w.checkSegmentWakes(i); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		return nil
	})
}

func (w *world) checkSegmentWakes(seed uint64) error {
	first, second := w.peers[0], w.peers[1]
	ask := func() (bool, error) {
		s, err := second.Domain.(fabric.SharedMemory).Segment(seed+1, []int{0, 1}, 256)
		if err == nil {
			err = s.Close()
		} else if err == fabric.ErrAgain {
			return false, nil
		}
		return true, err
	}
	over, err := ask()
	if err != nil || over { // it does not wait
		return errors.Join(err, first.mapAndClose(seed+1))
	}
	for _, wake := range []func() error{
		func() error { return first.send(1, fill(make([]byte, 8), seed), nil) },
		func() error { return first.mapAndClose(seed + 1) },
	} {
		for woken := false; !woken; { // there may be other events first
			err := second.sleep(func() (bool, error) {
				woken = true
				err := wake()
				if err == nil {
					over, err = ask()
				}
				return over, err
			})
			if err != nil {
				return err
			}
			if _, err := second.tryProgress(); err != nil {
				return err
			}
		}
	}
	if !over {
		over, err = ask()
	}
	if err == nil && !over {
		err = errors.New("woken without the segment")
	}
	return errors.Join(err, second.expect(0, 8, seed))
}

// mapAndClose maps a segment and closes it.
func (p *peer) mapAndClose(id uint64) error {
	s, err := p.segment(id, []int{0, 1}, 256)
	if err != nil {
		return err
	}
	return s.Close()
}

// checkWords: the words that two peers share are zero at first, are the same at both ends of each direction, and are shared with
// no other peer.
func checkWords(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 3)
	w.runAlone(func() error {
		found := false
		for i, p := range w.peers {
			a, ok := p.Domain.(fabric.CooperativeCopier)
			if !ok {
				t.Logf("%s is not a fabric.CooperativeCopier", p.transport.Name())
				return nil
			}
			for j, q := range w.peers {
				if i == j {
					continue
				}
				out, in := a.Words(j, false), q.Domain.(fabric.CooperativeCopier).Words(i, true)
				if len(out) != len(in) || out != nil && len(out) < 8 {
					return fmt.Errorf("%d words from %d to %d at one end, %d at the other", len(out), i, j, len(in))
				}
				found = found || out != nil
				for k := range out {
					if x := atomic.AddUint64(&out[k], 1); x != 1 || atomic.AddUint64(&in[k], 1) != 2 {
						return fmt.Errorf("word %d from %d to %d was %d, or is not shared", k, i, j, x-1)
					}
				}
			}
			if a.Words(3, true) != nil || a.Words(-1, false) != nil {
				return errors.New("words with a peer outside the set")
			}
		}
		if !found {
			return errors.New("no two peers share words")
		}
		return nil
	})
}
