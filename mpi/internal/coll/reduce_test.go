package coll

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// counts are numbers of elements: none, fewer than ranks, as many, odd, and enough for the algorithms for long
// messages.
var counts = []int{0, 1, 3, 8, 101, 2100}

// ops are the operations with which every reduction is tested.
var ops = map[string]func() *Operation{"add": add, "affine": affine}

// eachReduction runs f for the ranks of each, both operations, all lengths, and in place and not.
func eachReduction(t *testing.T, f func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool)) {
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for _, op := range ops {
			for _, count := range counts {
				for _, in := range []bool{false, true} {
					f(t, m, r, op(), count*op().ElemSize, in)
				}
			}
		}
	})
}

// results is where a collective is to put its results: beside its operands or over them.
func results(src [][]byte, n int, in bool) [][]byte {
	if in {
		return src
	}
	return blanks(len(src), n)
}

func TestAllreduce(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, op *Operation) error{
		"chosen": Allreduce, "doubling": allreduceDoubling, "rabenseifner": allreduceRabenseifner, "ring": allreduceRing,
		"tree": AllreduceTree, "two-level": twoLevelAllreduce, "two-level parts": twoLevelParts,
	} {
		t.Run(name, func(t *testing.T) {
			eachReduction(t, func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool) {
				if name == "ring" && (!op.Commutative || m.n == 1) || name != "chosen" && n == 0 {
					return
				}
				src := random(r, m.n, n)
				want := reduced(src, op)
				dst := results(src, n, in)
				m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], op) })
				for i := range dst {
					if !bytes.Equal(dst[i], want) {
						t.Fatalf("%d bytes, in place %v: rank %d has\n%x, want\n%x", n, in, i, dst[i], want)
					}
				}
			})
		})
	}
}

// TestAllreduceMany: several buffers get the same results as one after another, whichever are combined: short ones,
// empty ones, and some that are longer than what is combined.
func TestAllreduceMany(t *testing.T) {
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for _, newOp := range ops {
			op := newOp()
			for _, in := range []bool{false, true} {
				var srcs, dsts, wants [][][]byte // by buffer, by rank
				for range r.IntN(12) {
					n := []int{0, 1, 40, 3000, maxFused / 8, maxFused}[r.IntN(6)] * op.ElemSize
					src := random(r, m.n, n)
					wants = append(wants, [][]byte{reduced(src, op)})
					srcs, dsts = append(srcs, src), append(dsts, results(src, n, in))
				}
				m.run(t, func(p Peer) error {
					at := func(i int) (dst, src []byte) { return dsts[i][p.Rank()], srcs[i][p.Rank()] }
					return AllreduceMany(p, len(srcs), at, func(dst, src []byte) error { return Allreduce(p, dst, src, op) })
				})
				for i, want := range wants {
					for rank, got := range dsts[i] {
						if !bytes.Equal(got, want[0]) {
							t.Fatalf("buffer %d of %d bytes, in place %v: rank %d has another result", i, len(got), in, rank)
						}
					}
				}
			}
		}
	})
}

// TestFused: as many buffers are combined as fit, at least one, and no byte is in two messages.
func TestFused(t *testing.T) {
	for _, c := range []struct{ lengths, calls []int }{
		{nil, nil},
		{[]int{0}, []int{0}},
		{[]int{8, 0, 8}, []int{16}},
		{[]int{maxFused, 1}, []int{maxFused, 1}},
		{[]int{1, 2 * maxFused, 1, 2}, []int{1, 2 * maxFused, 3}},
		{[]int{maxFused / 2, maxFused / 2, 1}, []int{maxFused, 1}},
	} {
		var calls []int
		buf := make([]byte, 2*maxFused)
		at := func(i int) (dst, src []byte) { return buf[:c.lengths[i]], buf[:c.lengths[i]] }
		p := &noopPeer{ranks: 2, scratch: make([]byte, 4*maxFused)}
		err := AllreduceMany(p, len(c.lengths), at, func(dst, src []byte) error {
			calls = append(calls, len(src))
			return nil
		})
		if err != nil || !slices.Equal(calls, c.calls) {
			t.Errorf("lengths %v: %v, %v, want %v", c.lengths, err, calls, c.calls)
		}
	}
}

// TestFusedMemory: the memory in which buffers are combined does not depend on their number.
func TestFusedMemory(t *testing.T) {
	var p Plan
	p.Reset(0, 2, nil)
	buf, places := make([]byte, maxFused/2), map[*byte]bool{}
	at := func(int) (dst, src []byte) { return buf, buf }
	err := AllreduceMany(&p, 101, at, func(dst, src []byte) error {
		places[&src[0]] = true
		return nil
	})
	if err != nil || len(places) != 2 { // the last one is alone, and not copied
		t.Errorf("%d places, %v", len(places), err)
	}
}

func TestReduce(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, op *Operation, root int) error{
		"chosen": Reduce, "binomial": reduceBinomial, "scatter gather": reduceScatterGather, "two-level": twoLevelReduce,
	} {
		t.Run(name, func(t *testing.T) {
			eachReduction(t, func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool) {
				if name != "chosen" && (n == 0 || m.n == 1) {
					return
				}
				for _, root := range someRoots(m.n) {
					src := random(r, m.n, n)
					want, before := reduced(src, op), clones(src)
					dst := make([][]byte, m.n)
					dst[root] = results(src, n, in)[root]
					m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], op, root) })
					if !bytes.Equal(dst[root], want) {
						t.Fatalf("%d bytes, in place %v: root %d has\n%x, want\n%x", n, in, root, dst[root], want)
					}
					for i := range src {
						if !(in && i == root) && !bytes.Equal(src[i], before[i]) {
							t.Fatalf("%d bytes, root %d: the operand of rank %d was changed", n, root, i)
						}
					}
				}
			})
		})
	}
}

func TestReduceScatter(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, counts []int, op *Operation) error{
		"chosen": ReduceScatter, "doubling": reduceScatterDoubling, "pairwise": reduceScatterPairwise,
	} {
		t.Run(name, func(t *testing.T) {
			eachReduction(t, func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool) {
				layout, _ := randomLayout(r, m.n, n/op.ElemSize/m.n, op.ElemSize)
				total := 0
				for _, c := range layout.Counts {
					total += c * op.ElemSize
				}
				if name != "chosen" && total == 0 {
					return
				}
				src := random(r, m.n, total)
				sum := reduced(src, op)
				dst := results(src, total, in)
				m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], layout.Counts, op) })
				for i := range dst {
					want := blockOf(sum, layout.Counts, i, op.ElemSize)
					if got := dst[i][:len(want)]; !bytes.Equal(got, want) {
						t.Fatalf("counts %v, in place %v: rank %d has\n%x, want\n%x", layout.Counts, in, i, got, want)
					}
				}
			})
		})
	}
}

func TestScan(t *testing.T) {
	eachReduction(t, func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool) {
		src := random(r, m.n, n)
		before := clones(src)
		dst := results(src, n, in)
		m.run(t, func(p Peer) error { return Scan(p, dst[p.Rank()], src[p.Rank()], op) })
		for i := range dst {
			if want := reduced(before[:i+1], op); !bytes.Equal(dst[i], want) {
				t.Fatalf("%d bytes, in place %v: rank %d has\n%x, want\n%x", n, in, i, dst[i], want)
			}
		}
	})
}

func TestExscan(t *testing.T) {
	eachReduction(t, func(t *testing.T, m *matrix, r *rand.Rand, op *Operation, n int, in bool) {
		src := random(r, m.n, n)
		before := clones(src)
		dst := results(src, n, in)
		untouched := append([]byte{}, dst[0]...)
		m.run(t, func(p Peer) error { return Exscan(p, dst[p.Rank()], src[p.Rank()], op) })
		if !bytes.Equal(dst[0], untouched) {
			t.Fatalf("%d bytes, in place %v: rank 0's buffer was changed", n, in)
		}
		for i := 1; i < m.n; i++ {
			if want := reduced(before[:i], op); !bytes.Equal(dst[i], want) {
				t.Fatalf("%d bytes, in place %v: rank %d has\n%x, want\n%x", n, in, i, dst[i], want)
			}
		}
	})
}

// TestSameBits sums numbers that round differently in each order: whatever the order, it is to be the same for all
// ranks.
func TestSameBits(t *testing.T) {
	sum, _ := reduction.Lookup(reduction.Sum, datatype.Float32)
	op := &Operation{Kernel: sum, ElemSize: 4, Commutative: true}
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for _, count := range []int{1, 1000, 5000, 50000} {
			src, dst := blanks(m.n, 4*count), blanks(m.n, 4*count)
			for _, b := range src {
				for i := range count {
					v := float32(r.NormFloat64() * math.Exp(10*r.NormFloat64()))
					binary.NativeEndian.PutUint32(b[4*i:], math.Float32bits(v))
				}
			}
			m.run(t, func(p Peer) error { return Allreduce(p, dst[p.Rank()], src[p.Rank()], op) })
			for i := range dst {
				if !bytes.Equal(dst[i], dst[0]) {
					t.Fatalf("%d numbers: rank %d has other bits than rank 0", count, i)
				}
			}
		}
	})
}
