package fabrictest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// scattered is packed bytes in blocks of the same length, each followed by a gap as long as the block.
type scattered struct {
	mem      []byte
	blockLen int64
}

var (
	_ fabric.Source = (*scattered)(nil)
	_ fabric.Sink   = (*scattered)(nil)
)

// newScattered returns n packed bytes in blocks, as fill makes them of a seed.
func newScattered(n int, blockLen int64, seed uint64) *scattered {
	s := &scattered{blockLen: blockLen, mem: make([]byte, 2*(int64(n)+blockLen))}
	s.mem = s.mem[:s.where(int64(n))]
	s.Unpack(fill(make([]byte, n), seed), 0)
	return s
}

// where returns the position of a packed byte in memory.
func (s *scattered) where(at int64) int64 { return at + at/s.blockLen*s.blockLen }

// size returns the number of packed bytes.
func (s *scattered) size() int64 {
	n := int64(len(s.mem))
	return n/(2*s.blockLen)*s.blockLen + min(n%(2*s.blockLen), s.blockLen)
}

// rest returns the memory from a packed byte to the end of its block.
func (s *scattered) rest(at int64) []byte {
	from := s.where(at)
	return s.mem[from:min(from+s.blockLen-at%s.blockLen, int64(len(s.mem)))]
}

func (s *scattered) Pack(dst []byte, from int64) int {
	n := 0
	for n < len(dst) && from < s.size() {
		k := copy(dst[n:], s.rest(from))
		n, from = n+k, from+int64(k)
	}
	return n
}

func (s *scattered) Unpack(src []byte, from int64) int {
	n := 0
	for n < len(src) && from < s.size() {
		k := copy(s.rest(from), src[n:])
		n, from = n+k, from+int64(k)
	}
	return n
}

func (s *scattered) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	for ; n < len(out) && from < to; n++ {
		k := min(int64(len(s.rest(from))), to-from)
		out[n] = fabric.Block{Off: s.where(from), Len: k}
		from += k
	}
	return n, from
}

func (s *scattered) Slice(b fabric.Block) []byte { return s.mem[b.Off : b.Off+b.Len] }

func (s *scattered) BlockLen() int64 { return s.blockLen }

// sendFrom sends a message of a source as soon as there is room.
func (p *peer) sendFrom(to int, header []byte, src fabric.Source, from int64, n int) error {
	for {
		err := p.eps[to].(fabric.Gatherer).SendFrom(header, src, from, n)
		if err != fabric.ErrAgain {
			return err
		}
		if err := p.progress(); err != nil {
			return err
		}
	}
}

// checkGather: messages of data in blocks arrive joined, from any byte on.
func checkGather(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].eps[1].(fabric.Gatherer); !ok {
		t.Logf("%s does not gather", w.peers[0].transport.Name())
		return
	}
	w.each(func(p *peer) error {
		for i, n := range lengths(p.caps.MaxSend) {
			for j, blockLen := range []int64{1, 100, 5000} {
				seed := uint64(3*i + j)
				header := min(n, 24*j)
				if p.self == 1 {
					if err := p.expectParts(0, header, n-header, seed); err != nil {
						return fmt.Errorf("%d bytes in blocks of %d: %w", n, blockLen, err)
					}
					continue
				}
				src := newScattered(n-header+17, blockLen, seed)
				if err := p.sendFrom(1, fill(make([]byte, header), seed), src, 17, n-header); err != nil {
					return err
				}
				clear(src.mem)
			}
		}
		return nil
	})
	w.runAlone(func() error { return checkGatherRefused(w.peers[0], w.peers[1]) })
}

// expectParts receives a message of sendFrom: a header, and n bytes that follow the first 17 of a seed.
func (p *peer) expectParts(from, header, n int, seed uint64) error {
	got, err := p.receive(from)
	if err != nil {
		return err
	}
	if len(got) != header+n {
		return fmt.Errorf("got %d bytes instead of %d", len(got), header+n)
	}
	return errors.Join(check(got[:header], header, seed),
		check(append(fill(make([]byte, 17+n), seed)[:17], got[header:]...), 17+n, seed))
}

// checkGatherRefused: a message that is too long, or longer than its source, is an error without further effect.
func checkGatherRefused(a, b *peer) error {
	src := newScattered(a.caps.MaxSend+1, 64, 1)
	ep := a.eps[1].(fabric.Gatherer)
	if err := ep.SendFrom(nil, src, 0, a.caps.MaxSend+1); err == nil || err == fabric.ErrAgain {
		return fmt.Errorf("a message of %d bytes, where %d are allowed: %v", a.caps.MaxSend+1, a.caps.MaxSend, err)
	}
	short := newScattered(200, 10, 2)
	if err := a.sendFrom(1, make([]byte, 8), short, 50, 151); err == nil {
		return errors.New("151 bytes of a source that has 150: no error")
	}
	for seed := range uint64(3) {
		if err := errors.Join(a.send(1, fill(make([]byte, 20), seed), nil), b.expect(0, 20, seed)); err != nil {
			return fmt.Errorf("after a message that was refused: %w", err)
		}
	}
	sent := 0
	for {
		err := ep.SendFrom(nil, src, 0, a.caps.MaxSend)
		if err == fabric.ErrAgain {
			break
		}
		if err != nil {
			return err
		}
		if sent++; sent*a.caps.MaxSend > 1<<30 {
			return fmt.Errorf("%d messages of %d bytes are queued", sent, a.caps.MaxSend)
		}
	}
	for i := range sent {
		got, err := b.receive(0)
		if err != nil || len(got) != a.caps.MaxSend {
			return fmt.Errorf("message %d of %d: %d bytes, %w", i, sent, len(got), err)
		}
	}
	return nil
}
