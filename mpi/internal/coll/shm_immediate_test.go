package coll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// newImmediates returns a ShmImmediate for each rank, over the same memory.
func newImmediates(t *testing.T, ranks int) []*ShmImmediate {
	t.Helper()
	words, data := ShmImmediateBytes(ranks)
	c := ShmImmediateConfig{
		Words: segment(words), Size: ranks, Oversubscribed: ranks > 2, Sync: gosched{new(atomic.Bool)},
	}
	c.Data, c.Allocate = sparse(t, data, 0)
	var all []*ShmImmediate
	for c.Rank = range ranks {
		f, err := NewShmImmediate(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// newDirectImmediates is newImmediates for ranks that can read each other's memory.
func newDirectImmediates(t *testing.T, ranks int) []*ShmImmediate {
	t.Helper()
	all, m := newImmediates(t, ranks), new(remote)
	for _, f := range all {
		f.ReadDirectly(m, make([]uint64, ranks))
	}
	return all
}

// immediateCase is one collective at all ranks: what each calls, and what it must get.
type immediateCase struct {
	plans     []*Plan
	got, want [][]byte
}

var sumBytes = Operation{ElemSize: 1, Commutative: true, Kernel: func(dst, a, b []byte) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}}

// immediateKinds are the collectives of ShmImmediate.
var immediateKinds = []Collective{
	OfBarrier, OfBcast, OfReduce, OfAllreduce, OfGather, OfScatter, OfAllgather, OfAlltoall, OfReduceScatter,
}

// newImmediateCase returns a random collective over shared memory, which is short, or has several parts.
func newImmediateCase(t *testing.T, rnd *rand.Rand, all []*ShmImmediate) *immediateCase {
	for {
		most := all[0].room * []int{1, 1, 1, 10}[rnd.IntN(4)] >> rnd.IntN(12)
		x := newCase(t, rnd, all, immediateKinds[rnd.IntN(len(immediateKinds))], 1+rnd.IntN(most/len(all)+1))
		if !x.plans[0].SharedCalls[0].Used() {
			continue // it uses messages
		}
		for _, p := range x.plans {
			if !p.SharedCalls[0].direct && (len(p.Steps) != 1 || p.Steps[0].Kind != StepShared) {
				t.Fatalf("%v: steps %v", p.SharedCalls[0].Collective, p.Steps)
			}
		}
		return x
	}
}

// newCase returns a collective with blocks of n bytes.
func newCase(t *testing.T, rnd *rand.Rand, all []*ShmImmediate, c Collective, n int) *immediateCase {
	ranks := len(all)
	in := &immediateInput{root: rnd.IntN(ranks), inPlace: rnd.IntN(2) == 0, n: n, op: &sumBytes, data: make([][]byte, ranks)}
	if rnd.IntN(2) == 0 {
		in.op = affine()
		in.n = (n + in.op.ElemSize - 1) / in.op.ElemSize * in.op.ElemSize
	}
	for r := range in.data {
		in.data[r] = make([]byte, in.n*ranks)
		first := rnd.IntN(256)
		for i := range in.data[r] {
			in.data[r][i] = byte(first + i*7 + i>>8)
		}
	}
	left := in.n * ranks / in.op.ElemSize
	for range ranks - 1 {
		in.counts = append(in.counts, rnd.IntN(left+1))
		left -= in.counts[len(in.counts)-1]
	}
	in.counts = append(in.counts, left)
	x := &immediateCase{}
	for r, f := range all {
		p := &Plan{}
		p.Reset(r, ranks, nil)
		p.SetShared(&ShmImmediates{f}, 0)
		call := in.move
		if c == OfReduce || c == OfAllreduce || c == OfReduceScatter {
			call = in.reduce
		}
		got, want, err := call(p, c)
		if err != nil {
			t.Fatalf("%v of %d bytes, %d ranks: %v", c, in.n, ranks, err)
		}
		x.plans, x.got, x.want = append(x.plans, p), append(x.got, got), append(x.want, want)
	}
	return x
}

// immediateInput is the arguments of a collective. Each rank has a block of n bytes for each rank; in a ReduceScatter, one
// of counts elements.
type immediateInput struct {
	root, n int
	counts  []int // of ReduceScatter
	op      *Operation
	inPlace bool
	data    [][]byte
}

func (x *immediateInput) block(b []byte, i int) []byte { return blockAt(b, i, x.n) }

// reduce records a reduction. It returns its result, and what that must be.
func (x *immediateInput) reduce(p *Plan, c Collective) (dst, want []byte, err error) {
	sum := slices.Clone(x.data[0])
	for _, b := range x.data[1:] {
		x.op.Kernel(sum, sum, b)
	}
	src := slices.Clone(x.data[p.Rank()])
	dst = make([]byte, len(src))
	if x.inPlace {
		dst = src
	}
	switch c {
	case OfReduceScatter:
		first := 0
		for _, n := range x.counts[:p.Rank()] {
			first += n * x.op.ElemSize
		}
		dst = dst[:x.counts[p.Rank()]*x.op.ElemSize]
		return dst, sum[first:][:len(dst)], ReduceScatter(p, dst, src, x.counts, x.op)
	case OfAllreduce:
		return dst, sum, Allreduce(p, dst, src, x.op)
	}
	if want = slices.Clone(dst); p.Rank() == x.root {
		want = sum
	}
	return dst, want, Reduce(p, dst, src, x.op, x.root)
}

// move records another collective. It returns its result, and what that must be.
func (x *immediateInput) move(p *Plan, c Collective) (dst, want []byte, err error) {
	r, src := p.Rank(), slices.Clone(x.data[p.Rank()])
	dst, want = make([]byte, len(src)), make([]byte, len(src))
	switch c {
	case OfBarrier:
		return nil, nil, Barrier(p)
	case OfBcast:
		return src, x.data[x.root], Bcast(p, src, x.root)
	case OfScatter:
		return dst[:x.n], x.block(x.data[x.root], r), Scatter(p, dst[:x.n], src, x.root)
	case OfAlltoall:
		if x.inPlace {
			dst = src
		}
		for i, b := range x.data {
			copy(x.block(want, i), x.block(b, r))
		}
		return dst, want, Alltoall(p, dst, src)
	}
	own, receives := src[:x.n], c == OfAllgather || r == x.root
	if x.inPlace && receives {
		copy(x.block(dst, r), own)
		own = dst[:x.n]
	}
	for i, b := range x.data {
		if receives {
			copy(x.block(want, i), b)
		}
	}
	if c == OfAllgather {
		return dst, want, Allgather(p, dst, own)
	}
	return dst, want, Gather(p, dst, own, x.root)
}

// TestShmImmediate: whatever the order in which ranks begin calls and advance them, every call ends with the right result, with
// more calls in progress than there are slots. With IBRUN_SOAK=1 it makes twice as many calls.
func TestShmImmediate(t *testing.T) {
	for _, ranks := range []int{2, 3, 5, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			seed := soaktest.Seed(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			all := newImmediates(t, ranks)
			var cases []*immediateCase
			for range soaktest.Choose(200, 100) {
				cases = append(cases, newImmediateCase(t, rnd, all))
			}
			begun, left := make([]int, ranks), make([][]int, ranks)
			for turns, ended := 0, 0; ended < ranks*len(cases); turns++ {
				if turns > 1_000_000 {
					t.Fatalf("seed %d: %d calls have ended, and the others do not: begun %v, in progress %v", seed, ended, begun, left)
				}
				r := rnd.IntN(ranks)
				if begun[r] < len(cases) && len(left[r]) < 3*immediateSlots && rnd.IntN(3) == 0 {
					all[r].Begin(&cases[begun[r]].plans[r].SharedCalls[0], uint64(begun[r]))
					all[r].Allocate(&cases[begun[r]].plans[r].SharedCalls[0])
					left[r] = append(left[r], begun[r])
					begun[r]++
				}
				left[r] = slices.DeleteFunc(left[r], func(i int) bool {
					x := cases[i]
					_, done, err := all[r].Advance(&x.plans[r].SharedCalls[0])
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if done {
						ended++
						if !bytes.Equal(x.got[r], x.want[r]) {
							t.Fatalf("seed %d, call %d, rank %d: %v of %d bytes is wrong", seed, i, r,
								x.plans[r].SharedCalls[0].Collective, x.plans[r].SharedCalls[0].Bytes)
						}
					}
					return done
				})
			}
		})
	}
}

// TestImmediateParts: the parts of a call follow each other, cover each block, fit into a slot, and contain whole elements.
func TestImmediateParts(t *testing.T) {
	op := &Operation{ElemSize: 12}
	for _, ranks := range []int{2, 3, 70} {
		f := newImmediates(t, ranks)[0]
		for _, c := range immediateKinds {
			for _, n := range []int{0, 12, f.room - 1, f.room, f.room + 1, 10*f.room + 12} {
				x, blocks := &ShmCall{Collective: c, Bytes: n}, 1
				if !fitsImmediate(c, n, ranks) {
					continue
				}
				switch c {
				case OfAlltoall, OfScatter:
					blocks = ranks - 1
				case OfReduce, OfAllreduce, OfReduceScatter:
					x.op = op
				}
				f.setPart(x)
				f.Begin(x, 0)
				f.Allocate(x)
				end := 0
				for i := range x.parts() {
					off, size := x.extent(x.number + uint64(i))
					if off != end || c != OfBarrier && size*blocks > f.room || x.op != nil && off%op.ElemSize != 0 {
						t.Fatalf("%v of %d bytes between %d ranks: part %d has %d bytes at %d", c, n, ranks, i, size, off)
					}
					end += size
				}
				if end != n || f.begun != x.number+uint64(x.parts())-1 {
					t.Errorf("%v of %d bytes between %d ranks: %d parts have %d bytes", c, n, ranks, x.parts(), end)
				}
			}
		}
	}
}

// TestImmediateRules: what is short uses shared memory, unless it does not fit into the slots of many ranks, and each rule of the
// table is used.
func TestImmediateRules(t *testing.T) {
	used := map[Rule]bool{}
	for _, c := range immediateKinds {
		for _, ranks := range []int{2, 3, 16, 70, 128, 1000, 4096} {
			room := partRoom(c, ranks)
			for _, n := range []int{0, 1, room, room + 1, 8 * kib} {
				a := ChooseImmediate(nil, c, n, ranks, Shared).Algorithm
				if fits := n <= room || room >= minPartBytes; n <= 8*kib && (a == SharedMemory) != fits {
					t.Errorf("%v of %d bytes between %d ranks: %v; the room is %d", c, n, ranks, a, room)
				}
			}
			for n := 1; n <= 1<<24; n *= 2 {
				for _, f := range []Family{Shared, Direct} {
					used[ChooseImmediate(nil, c, n, ranks, f)] = true
				}
			}
		}
		if a := ChooseImmediate(nil, c, 8, 1, Direct).Algorithm; a != None {
			t.Errorf("%v of one rank: %v", c, a)
		}
	}
	for _, r := range immediateRules {
		if !used[r] {
			t.Errorf("a rule is never used: %v %v %s", r.Collective, r.Algorithm, r.Conditions())
		}
	}
}

// TestShmImmediateDiffers: a rank that reads from another one whose call differs, or whose earlier call did, gets an error.
func TestShmImmediateDiffers(t *testing.T) {
	for _, first := range []Collective{OfBarrier, OfBcast} {
		all := newImmediates(t, 2)
		call := func(r int, c Collective, describes uint64) error {
			x := &ShmCall{Collective: c, Bytes: 1, dst: make([]byte, 2), src: make([]byte, 2), op: &sumBytes}
			all[r].Begin(x, describes)
			all[r].Allocate(x)
			_, _, err := all[r].Advance(x)
			return err
		}
		// The root of a Bcast reads nothing, and finds the difference in the call after it.
		errs := []error{call(0, first, 1), call(1, OfBarrier, 2), call(0, OfBarrier, 3), call(1, OfBarrier, 3)}
		var d difference
		if err := errors.Join(errs...); !errors.As(err, &d) {
			t.Errorf("%v: got %v", first, errs)
		}
	}
}
