package core

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/perf"
)

// Pairs are the buffers of several reductions. At returns those of one.
type Pairs struct {
	Dsts, Srcs int // numbers of buffers, which must be the same
	At         func(i int) (dst, src []byte)
}

// AllreduceMany is an Allreduce of each of several pairs of buffers, short ones together. The pairs
// are no field of Collective, because their function would then be allocated for each call.
func (cs *Collectives) AllreduceMany(b Pairs, k Elements, o Op) error {
	const call = perf.Allreduce
	// The standard has no such call, so it has no meaning between two groups either.
	if cs.isInter() {
		return cs.comm.newError(call.String(), ErrComm, errInter)
	}
	if err := cs.beginCall(call, b.bytes()); err != nil {
		return err
	}
	defer cs.endCall()
	c, g := cs.comm, &cs.main
	err := c.wrapError(call.String(), samePairs(&g.operation, &b, k, o))
	if c.checks {
		err = cs.compare(cs.describePairs(call, &b, k, o), err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(call.String(), coll.AllreduceMany(g, b.Srcs, b.At, func(dst, src []byte) error {
		used := g.scratch.used
		err := g.allreduce(dst, src, k, o)
		g.scratch.used = used // what one Allreduce has used is free for the next
		return err
	}))
}

// allreduce combines src of all ranks with the current operation, which is that of k and o.
func (g *collState) allreduce(dst, src []byte, k Elements, o Op) error {
	if f := g.shmReduction(coll.OfAllreduce, len(src), k, o, 0); f != nil {
		return f.Allreduce(dst, src, &g.operation)
	}
	return coll.Allreduce(g, dst, src, &g.operation)
}

// bytes returns the number of bytes that this rank sends.
func (b *Pairs) bytes() (n int) {
	for i := range min(b.Dsts, b.Srcs) {
		_, src := b.At(i)
		n += len(src)
	}
	return n
}

// counts returns the numbers of elements.
func (b *Pairs) counts(k Elements) (counts []int) {
	for i := range min(b.Dsts, b.Srcs) {
		_, src := b.At(i)
		counts = append(counts, len(src)/k.Size())
	}
	return counts
}

// StartAllreduceMany starts an AllreduceMany.
func (cs *Collectives) StartAllreduceMany(start Start, b Pairs, k Elements, o Op) (Request, error) {
	x := &Collective{Kind: perf.Allreduce, Elements: k, Op: o, start: start}
	if cs.isInter() {
		return Request{}, cs.comm.newError(start.Name(x.Kind), ErrComm, errInter)
	}
	return cs.start(x, &b)
}

// describePairs returns an AllreduceMany as calls are compared.
func (cs *Collectives) describePairs(call perf.Op, b *Pairs, k Elements, o Op) *checking.Call {
	y := cs.newCollCall(call, k, b.bytes())
	y.Op, y.Counts = describeOp(o), b.counts(k)
	return y
}

// samePairs checks the buffers of reductions with results at all ranks, and sets their operation.
func samePairs(x *coll.Operation, b *Pairs, k Elements, o Op) error {
	if b.Dsts != b.Srcs {
		return faultf(ErrCount, "%d slices for the results of %d", b.Dsts, b.Srcs)
	}
	for i := range b.Srcs {
		dst, src := b.At(i)
		if err := checkSameSize(dst, src); err != nil {
			return err
		}
	}
	return setOperation(x, k, o)
}

// equalCounts returns the counts of blocks of the same length for all ranks of the local group,
// which are src together.
func (a *arguments) equalCounts(src []byte, k Elements) ([]int, error) {
	n := len(src) / k.Size()
	if n%a.local != 0 {
		return nil, faultf(ErrCount, "%d elements cannot be divided evenly among %d ranks", n, a.local)
	}
	return slices.Repeat([]int{n / a.local}, a.local), nil
}

// ownResult checks the buffers and counts of a ReduceScatter, and returns the part of dst that it
// fills.
func (a *arguments) ownResult(dst, src []byte, counts []int, k Elements) ([]byte, error) {
	total, err := sumOf(counts, a.size, "ranks")
	if err != nil {
		return nil, err
	}
	if total != len(src)/k.Size() {
		return nil, faultf(ErrCount, "the sum of counts is %d, but src has %d elements", total, len(src)/k.Size())
	}
	mine := counts[a.rank] * k.Size()
	if len(dst) < mine {
		return nil, faultf(ErrCount, "dst has %d elements, but this rank's count is %d", len(dst)/k.Size(), counts[a.rank])
	}
	dst = dst[:mine]
	if sameStart(dst, src) {
		return dst, nil
	}
	return dst, checkOverlap(dst, src)
}

// ReduceLocal combines src and dst into dst. The operands of src are those of the lower ranks.
func ReduceLocal(dst, src []byte, k Elements, o Op) error {
	const op = "ReduceLocal"
	var x coll.Operation
	err := setOperation(&x, k, o)
	switch {
	case err != nil:
		f := err.(fault) // as all errors of setOperation
		return newError(op, f.class, f.error)
	case len(dst) != len(src):
		return newError(op, ErrCount, fmt.Errorf("dst has %d bytes, but src has %d", len(dst), len(src)))
	case overlap(dst, src) && !sameStart(dst, src):
		return newError(op, ErrBuffer, errPartialOverlap)
	}
	right := dst
	if x.Foreign { // reduction.User copies src to dst first
		right = slices.Clone(dst)
	}
	if len(dst) != 0 {
		x.Kernel(dst, src, right)
	}
	return nil
}
