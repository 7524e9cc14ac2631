package coll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

// newImmediates returns a ShmImmediate for each rank, over the same memory.
func newImmediates(t *testing.T, ranks int) []*ShmImmediate {
	t.Helper()
	mem, broken := segment(ShmImmediateBytes(ranks)), new(atomic.Bool)
	var all []*ShmImmediate
	for r := range ranks {
		f, err := NewShmImmediate(mem, r, ranks, gosched{broken})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
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

// newImmediateCase returns a random collective of at most most bytes of a rank.
func newImmediateCase(t *testing.T, rnd *rand.Rand, all []*ShmImmediate, most int) *immediateCase {
	kinds := []Collective{OfBarrier, OfBcast, OfReduce, OfAllreduce, OfGather, OfScatter, OfAllgather, OfAlltoall, OfReduceScatter}
	ranks, c := len(all), kinds[rnd.IntN(len(kinds))]
	in := &immediateInput{root: rnd.IntN(ranks), inPlace: rnd.IntN(2) == 0, n: 1 + rnd.IntN(most/ranks), data: make([][]byte, ranks)}
	for r := range in.data {
		in.data[r] = make([]byte, in.n*ranks)
		for i := range in.data[r] {
			in.data[r][i] = byte(rnd.Uint32())
		}
	}
	x := &immediateCase{}
	for r, f := range all {
		p := &Plan{}
		p.Reset(r, ranks, nil)
		p.Shared = f
		call := in.move
		if c == OfReduce || c == OfAllreduce || c == OfReduceScatter {
			call = in.reduce
		}
		got, want, err := call(p, c)
		if err != nil || len(p.Steps) != 1 || p.Steps[0].Kind != StepShared {
			t.Fatalf("%v of %d bytes, %d ranks: steps %v, %v", c, in.n, ranks, p.Steps, err)
		}
		x.plans, x.got, x.want = append(x.plans, p), append(x.got, got), append(x.want, want)
	}
	return x
}

// immediateInput is the arguments of a collective. Each rank has a block of n bytes for each rank.
type immediateInput struct {
	root, n int
	inPlace bool
	data    [][]byte
}

func (x *immediateInput) block(b []byte, i int) []byte { return blockAt(b, i, x.n) }

// reduce records a reduction. It returns its result, and what that must be.
func (x *immediateInput) reduce(p *Plan, c Collective) (dst, want []byte, err error) {
	sum := slices.Clone(x.data[0])
	for _, b := range x.data[1:] {
		sumBytes.Kernel(sum, sum, b)
	}
	src := slices.Clone(x.data[p.Rank()])
	dst = make([]byte, len(src))
	if x.inPlace {
		dst = src
	}
	switch c {
	case OfReduceScatter:
		dst = dst[:x.n]
		return dst, x.block(sum, p.Rank()), ReduceScatter(p, dst, src, slices.Repeat([]int{x.n}, p.Size()), &sumBytes)
	case OfAllreduce:
		return dst, sum, Allreduce(p, dst, src, &sumBytes)
	}
	if want = slices.Clone(dst); p.Rank() == x.root {
		want = sum
	}
	return dst, want, Reduce(p, dst, src, &sumBytes, x.root)
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
// more calls in progress than there are slots.
func TestShmImmediate(t *testing.T) {
	for _, ranks := range []int{2, 3, 5, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 1))
			all := newImmediates(t, ranks)
			var cases []*immediateCase
			for range 200 {
				cases = append(cases, newImmediateCase(t, rnd, all, all[0].room*(1+rnd.IntN(2))/2/ranks))
			}
			begun, left := make([]int, ranks), make([][]int, ranks)
			for turns, ended := 0, 0; ended < ranks*len(cases); turns++ {
				if turns > 1_000_000 {
					t.Fatalf("seed %d: %d calls have ended, and the others do not: begun %v, in progress %v", seed, ended, begun, left)
				}
				r := rnd.IntN(ranks)
				if begun[r] < len(cases) && len(left[r]) < 3*immediateSlots && rnd.IntN(3) == 0 {
					all[r].Begin(&cases[begun[r]].plans[r].SharedCall, uint64(begun[r]))
					left[r] = append(left[r], begun[r])
					begun[r]++
				}
				left[r] = slices.DeleteFunc(left[r], func(i int) bool {
					x := cases[i]
					_, done, err := all[r].Advance(&x.plans[r].SharedCall)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if done {
						ended++
						if !bytes.Equal(x.got[r], x.want[r]) {
							t.Fatalf("seed %d, call %d, rank %d: %v: got %v, want %v", seed, i, r,
								x.plans[r].SharedCall.Collective, x.got[r], x.want[r])
						}
					}
					return done
				})
			}
		})
	}
}

// TestMaxImmediateBytes: a collective of the largest length is done over shared memory, and a longer one is not.
func TestMaxImmediateBytes(t *testing.T) {
	for _, ranks := range []int{2, 3, 70} {
		f := newImmediates(t, ranks)[0]
		for c, run := range map[Collective]func(p *Plan, n int) error{
			OfBcast:     func(p *Plan, n int) error { return Bcast(p, make([]byte, n), 1) },
			OfAllreduce: func(p *Plan, n int) error { return Allreduce(p, make([]byte, n), make([]byte, n), &sumBytes) },
			OfAlltoall:  func(p *Plan, n int) error { return Alltoall(p, make([]byte, n*ranks), make([]byte, n*ranks)) },
			OfScatter:   func(p *Plan, n int) error { return Scatter(p, make([]byte, n), make([]byte, n*ranks), 0) },
		} {
			most := MaxImmediateBytes(c, ranks)
			for _, n := range []int{most, most + 1} {
				p := &Plan{}
				p.Reset(0, ranks, nil)
				p.Shared = f
				if err := run(p, n); err != nil || (p.Steps[0].Kind == StepShared) != (n == most) {
					t.Errorf("%v of %d bytes between %d ranks: step %v, %v", c, n, ranks, p.Steps[0].Kind, err)
				}
			}
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
