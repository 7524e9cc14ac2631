package fabrictest

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/ibrun/ibrun/fabric"
)

// parts is memory whose packed bytes are those of blocks in any order. It implements fabric.Source and fabric.Sink in the
// simplest way: its results are the model for those of the transports.
type parts struct {
	mem    []byte
	blocks []fabric.Block
	ends   []int64 // packed bytes up to the end of each block
}

var _ interface {
	fabric.Source
	fabric.Sink
} = (*parts)(nil)

// newParts returns memory with these blocks.
func newParts(mem []byte, blocks []fabric.Block) *parts {
	p := &parts{mem: mem, blocks: blocks}
	end := int64(0)
	for _, b := range blocks {
		end += b.Len
		p.ends = append(p.ends, end)
	}
	return p
}

// randomParts returns n packed bytes in blocks of random lengths up to longest, in random order and with random gaps.
func randomParts(r *rand.Rand, n, longest int) *parts {
	var blocks []fabric.Block
	at := r.IntN(100)
	for left := n; left > 0; {
		k := min(left, 1+r.IntN(longest))
		blocks = append(blocks, fabric.Block{Off: int64(at), Len: int64(k)})
		at += k + r.IntN(3)*r.IntN(200) // some blocks follow each other
		left -= k
	}
	r.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	return newParts(make([]byte, at), blocks)
}

// size returns the number of packed bytes.
func (p *parts) size() int64 {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// each calls f for the memory of packed bytes from byte from on, at most n of them, and returns how many there are.
func (p *parts) each(from int64, n int, f func(at int, b []byte)) int {
	done := 0
	for i := sort.Search(len(p.ends), func(i int) bool { return p.ends[i] > from }); i < len(p.blocks) && done < n; i++ {
		b := p.Slice(p.blocks[i])
		b = b[int64(len(b))-(p.ends[i]-from-int64(done)):]
		b = b[:min(len(b), n-done)]
		f(done, b)
		done += len(b)
	}
	return done
}

func (p *parts) Pack(dst []byte, from int64) int {
	return p.each(from, len(dst), func(at int, b []byte) { copy(dst[at:], b) })
}

func (p *parts) Unpack(src []byte, from int64) int {
	return p.each(from, len(src), func(at int, b []byte) { copy(b, src[at:]) })
}

func (p *parts) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	to = min(to, p.size())
	for i := sort.Search(len(p.ends), func(i int) bool { return p.ends[i] > from }); n < len(out) && from < to; i++ {
		b := p.blocks[i]
		skip := b.Len - (p.ends[i] - from)
		out[n] = fabric.Block{Off: b.Off + skip, Len: min(b.Len-skip, to-from)}
		from += out[n].Len
		n++
	}
	return n, from
}

func (p *parts) Slice(b fabric.Block) []byte { return p.mem[b.Off : b.Off+b.Len : b.Off+b.Len] }

func (p *parts) BlockLen() int64 { return p.size() / int64(max(1, len(p.blocks))) }

// clone returns a copy with memory of its own.
func (p *parts) clone() *parts { return &parts{slices.Clone(p.mem), p.blocks, p.ends} }
