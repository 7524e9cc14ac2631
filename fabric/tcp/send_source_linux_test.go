package tcp

import (
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// strided is a source of blocks of one length, with gaps of the same length between them.
type strided struct {
	mem    []byte
	length int
}

func (s *strided) BlockLen() int64 { return int64(s.length) }

func (s *strided) Slice(b fabric.Block) []byte { return s.mem[b.Off:][:b.Len] }

func (s *strided) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	length := int64(s.length)
	for to = min(to, int64(len(s.mem))/(2*length)*length); n < len(out) && from < to; n++ {
		in := from % length
		out[n] = fabric.Block{Off: 2*from - in, Len: min(length-in, to-from)}
		from += out[n].Len
	}
	return n, from
}

func (s *strided) Pack(dst []byte, from int64) (n int) {
	var blocks [16]fabric.Block
	for n < len(dst) {
		k, next := s.Blocks(blocks[:], from, from+int64(len(dst)-n))
		if k == 0 {
			break
		}
		for _, b := range blocks[:k] {
			n += copy(dst[n:], s.Slice(b))
		}
		from = next
	}
	return n
}

// TestShortSource: a source with too few bytes is an error, and the next message arrives as if it had not been sent.
func TestShortSource(t *testing.T) {
	ds, es := pair(t)
	own, err := ds[0].Connect(0, ds[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	src := &strided{make([]byte, 2000), 10}
	for _, ep := range []fabric.Endpoint{es[0], own} {
		for _, from := range []int64{1, 500, 1000, 5000} {
			if err := ep.(fabric.Gatherer).SendFrom([]byte("header"), src, from, 1000); err == nil || err == fabric.ErrAgain {
				t.Errorf("from byte %d of 1000: %v", from, err)
			}
		}
		if err := ep.Send([]byte("next"), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range ds {
		var evs [2]fabric.Event
		n, err := 0, error(nil)
		for n == 0 && err == nil {
			n, err = d.Poll(evs[:])
		}
		if err != nil || n != 1 || string(evs[0].Data) != "next" {
			t.Errorf("%d events (%v): %+v", n, err, evs[:n])
		}
	}
}
