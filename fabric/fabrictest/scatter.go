package fabrictest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// readTo runs a ReadTo to its end.
func (p *peer) readTo(dst fabric.Sink, from int64, n int, local fabric.Region, peer int, k fabric.RemoteKey) error {
	return p.transfer(func(token uint64) (bool, error) {
		return p.eps[peer].(fabric.Scatterer).ReadTo(dst, from, n, local, k, token)
	})
}

// checkScatter: a Read to random parts stores each byte where it belongs, and changes no other.
func checkScatter(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].eps[1].(fabric.Scatterer); !ok {
		t.Logf("%s does not read to parts", w.peers[0].transport.Name())
		return
	}
	for _, of := range []int{0, 1} { // memory of this process, then of another
		w.runAlone(func() error {
			for seed := range uint64(40) {
				if err := w.scatterOne(of, seed); err != nil {
					return fmt.Errorf("seed %d, memory of peer %d: %w", seed, of, err)
				}
			}
			return nil
		})
	}
}

func (w *world) scatterOne(of int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	a, b := w.peers[0], w.peers[of]
	longest := []int{8, 300, 5000, 100000}[r.IntN(4)]
	n := r.IntN([]int{1000, 20000, 300000, 300000}[r.IntN(4)])
	if longest == 8 { // else there are too many blocks for the time of a test
		n = min(n, 3000)
	}
	before := r.IntN(100)
	dst := randomParts(r, before+n+r.IntN(100), longest)
	fill(dst.mem, seed)
	want := dst.clone()
	data := fill(make([]byte, n+29), seed+1)
	want.Unpack(data[29:], int64(before))
	near, err := a.register(dst.mem)
	if err != nil {
		return err
	}
	far, err := b.register(data)
	if err != nil {
		return err
	}
	err = a.readTo(dst, int64(before), n, near.Region, of, far.at(29))
	switch {
	case errors.Is(err, fabric.ErrNotSupported): // allowed: nothing has changed
		want = dst.clone()
		fill(want.mem, seed)
	case err != nil:
		return err
	}
	if !bytes.Equal(dst.mem, want.mem) {
		return fmt.Errorf("%d bytes in %d blocks: not the bytes of the model", n, len(dst.blocks))
	}
	return errors.Join(a.Deregister(near.Region), b.Deregister(far.Region))
}

// checkScatterRange: a Read to parts that are not covered by the registration, or from memory outside of one, is an error, and
// changes nothing outside.
func checkScatterRange(t *testing.T, peers Peers) {
	const size, length = 64 << 10, 4 << 10
	w := newConnected(t, peers, 2)
	a, b := w.peers[0], w.peers[1]
	if _, ok := a.eps[1].(fabric.Scatterer); !ok {
		t.Logf("%s does not read to parts", a.transport.Name())
		return
	}
	w.runAlone(func() error {
		dst := newScattered(size, length, 0)
		near, err := a.register(dst.mem)
		if err != nil {
			return err
		}
		far, err := b.register(make([]byte, size))
		if err != nil {
			return err
		}
		part, err := a.register(dst.mem[:len(dst.mem)/2])
		if err != nil {
			return err
		}
		if err := a.readTo(dst, 0, size, part.Region, 1, far.at(0)); err == nil && !a.caps.Direct {
			return errors.New("a read to memory that is not registered succeeds")
		}
		if err := a.readTo(dst, 0, 0, near.Region, 1, far.at(0)); err != nil && !errors.Is(err, fabric.ErrNotSupported) {
			return fmt.Errorf("a read of nothing: %w", err)
		}
		if err := a.readTo(dst, 0, size, near.Region, 1, far.at(0)); err != nil && !errors.Is(err, fabric.ErrNotSupported) {
			return fmt.Errorf("a read after others that failed: %w", err)
		}
		if err := a.readTo(dst, 0, size, near.Region, 1, far.at(1)); err == nil { // last, since it may break the connection
			return errors.New("a read beyond the memory of the peer succeeds")
		}
		return errors.Join(a.Deregister(near.Region), a.Deregister(part.Region), b.Deregister(far.Region))
	})
}
