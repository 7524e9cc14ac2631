//go:build linux

package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// pages is a sink of blocks of 4 KiB, each with a gap of 4 KiB behind it.
type pages []byte

const pageBytes = 4 << 10

func (p pages) BlockLen() int64 { return pageBytes }

func (p pages) Slice(b fabric.Block) []byte { return p[b.Off:][:b.Len] }

func (p pages) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	for to = min(to, int64(len(p)/2)); n < len(out) && from < to; n++ {
		in := from % pageBytes
		out[n] = fabric.Block{Off: 2*from - in, Len: min(pageBytes-in, to-from)}
		from += out[n].Len
	}
	return n, from
}

func (p pages) Unpack(src []byte, from int64) (n int) {
	var one [1]fabric.Block
	for n < len(src) {
		k, next := p.Blocks(one[:], from, from+int64(len(src)-n))
		if k == 0 {
			break
		}
		n += copy(p.Slice(one[0]), src[n:])
		from = next
	}
	return n
}

// TestSimulatedScatterBreaks: a connection breaks after any number of polls during a Read to parts, over one device and over two.
// The Read ends once, and each byte is where it belongs.
func TestSimulatedScatterBreaks(t *testing.T) {
	for _, devices := range [][]string{{"a"}, {"a", "b"}} {
		_, ds := openSimulated(t, Settings{Devices: devices, Piece: pageBytes}, 2)
		a, b := ds[0], ds[1]
		connectPeers(t, a, b)
		src := make([]byte, 40*pageBytes+100)
		for i := range src {
			src[i] = byte(i * 7 >> 3)
		}
		dst := make(pages, 2*(len(src)+pageBytes))
		far, err1 := b.Register(src)
		near, err2 := a.Register(dst)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for polls := range 12 {
			clear(dst)
			want := make(pages, len(dst))
			want.Unpack(src, 33)
			token := uint64(polls)
			if _, err := a.eps[1].ReadTo(dst, 33, len(src), near, far.Remote, token); err != nil {
				t.Fatal(err)
			}
			got := pollTimes(t, a, polls)
			if len(got) == 0 {
				if err := a.eps[1].lanes.Queues[0].QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
					t.Fatal(err)
				}
				a.eps[1].declareBroken(verbs.ErrState)
			}
			waittest.Poll(t, "the read ends", func() bool {
				got = append(got, pollTimes(t, a, 1)...)
				pollTimes(t, b, 1)
				return len(got) > 0
			})
			got = append(got, pollTimes(t, a, 3)...)
			if len(got) != 1 || got[0].Kind != fabric.Done || got[0].Token != token || got[0].Err != nil {
				t.Fatalf("after %d polls: %+v", polls, got)
			}
			if !bytes.Equal(dst, want) {
				t.Fatalf("after %d polls: not the bytes of the model", polls)
			}
			connectPeers(t, a, b)
		}
	}
}
