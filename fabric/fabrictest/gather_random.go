package fabrictest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// gatherer returns the endpoint to a peer as a fabric.Gatherer.
func (p *peer) gatherer(t *testing.T, to int) (fabric.Gatherer, bool) {
	g, ok := p.eps[to].(fabric.Gatherer)
	if !ok {
		t.Logf("%s does not send data in parts", p.transport.Name())
	}
	return g, ok
}

// gathered is a message that is sent from parts: what its seed makes, so that sender and receiver make the same.
type gathered struct {
	header []byte
	src    *parts
	from   int64
	n      int
}

// newGathered returns a message of at most limit bytes. The higher the seed, the more of them are short.
func newGathered(seed uint64, limit int) gathered {
	r := rand.New(rand.NewPCG(seed, 1))
	m := gathered{header: fill(make([]byte, r.IntN(min(65, limit+1))), seed)}
	m.n = r.IntN((limit-len(m.header))>>r.IntN(12) + 1)
	if seed%8 == 0 {
		m.n = limit - len(m.header)
	}
	before, behind := r.IntN(100), r.IntN(100)
	longest := []int{1, 8, 100, 3000, 10000, 100000}[r.IntN(6)]
	if longest < 100 { // else there are too many blocks for the time of a test
		m.n = min(m.n, 2000)
	}
	m.src, m.from = randomParts(r, before+m.n+behind, longest), int64(before)
	fill(m.src.mem, seed)
	return m
}

// expect receives the message.
func (m *gathered) expect(p *peer, from int) error {
	got, err := p.receive(from)
	if err != nil {
		return err
	}
	want := make([]byte, len(m.header)+m.n)
	m.src.Pack(want[copy(want, m.header):], m.from)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("header of %d bytes and %d of %d packed bytes in %d blocks from byte %d on: %d other bytes arrived",
			len(m.header), m.n, m.src.size(), len(m.src.blocks), m.from, len(got))
	}
	return nil
}

// checkGatherRandom: messages from random parts arrive whole, in order with others, and with the bytes that the parts held when
// SendFrom was called. Each length of header and payload is the result of a seed, and blocks are split at any byte.
func checkGatherRandom(t *testing.T, peers Peers) {
	const count = 150
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].gatherer(t, 1); !ok {
		return
	}
	w.each(func(p *peer) error {
		for seed := range uint64(count) {
			m := newGathered(seed, p.caps.MaxSend)
			if p.self == 1 {
				if err := m.expect(p, 0); err != nil {
					return fmt.Errorf("seed %d: %w", seed, err)
				}
				if err := p.expect(0, int(seed), seed); err != nil {
					return fmt.Errorf("message behind that of seed %d: %w", seed, err)
				}
				continue
			}
			if err := p.sendFrom(1, m.header, m.src, m.from, m.n); err != nil {
				return err
			}
			clear(m.src.mem)
			if err := p.send(1, nil, fill(make([]byte, seed), seed)); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkGatherSelf: a peer can send to itself from parts.
func checkGatherSelf(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 1)
	if _, ok := w.peers[0].gatherer(t, 0); !ok {
		return
	}
	w.runAlone(func() error {
		p := w.peers[0]
		for seed := range uint64(40) {
			m := newGathered(seed, p.caps.MaxSend)
			sent := m.src.clone()
			err := p.sendFrom(0, m.header, sent, m.from, m.n)
			clear(sent.mem)
			if err == nil {
				err = m.expect(p, 0)
			}
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
		return nil
	})
}

// checkGatherDown: SendFrom to a peer that is lost returns ErrPeerDown.
func checkGatherDown(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	a, b := w.peers[0], w.peers[1]
	g, ok := a.gatherer(t, 1)
	if !ok {
		return
	}
	w.runAlone(func() error {
		src := newScattered(100, 10, 0)
		if err := b.Close(); err != nil {
			return err
		}
		if ev, err := a.next(1); err != nil || ev.Kind != fabric.PeerDown {
			return fmt.Errorf("%+v instead of the loss of the peer: %w", ev, err)
		}
		if err := g.SendFrom(nil, src, 0, 100); !errors.Is(err, fabric.ErrPeerDown) {
			return fmt.Errorf("to a lost peer: %w", err)
		}
		return nil
	})
}
