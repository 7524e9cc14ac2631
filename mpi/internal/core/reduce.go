package core

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Reduce combines src of all ranks element by element into dst at root.
func (c *Comm) Reduce(dst, src []byte, k Elements, o Op, root int) error {
	if c.isInter() {
		return c.interReduce(collMode{call: perf.Reduce, start: Blocking}, dst, src, k, o, root)
	}
	const op = "Reduce"
	if err := c.beginIntracomm(perf.Reduce, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	dst, err := c.reduceBuffers(&c.coll.operation, op, dst, src, k, o, root)
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Reduce, k, len(src)).rooted(root).reducing(o), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.shmReduction(coll.OfReduce, len(src), k, o, root); f != nil {
		return c.wrapError(op, f.Reduce(dst, src, &c.coll.operation, root))
	}
	return c.wrapError(op, coll.Reduce(&c.coll, dst, src, &c.coll.operation, root))
}

// Allreduce combines src of all ranks element by element into dst of every rank.
func (c *Comm) Allreduce(dst, src []byte, k Elements, o Op) error {
	if c.isInter() {
		return c.interAllreduce(collMode{call: perf.Allreduce, start: Blocking}, dst, src, k, o)
	}
	return c.allreduce(perf.Allreduce, dst, src, k, o)
}

// allreduce combines the values of both groups if c is an intercommunicator.
func (c *Comm) allreduce(call perf.Op, dst, src []byte, k Elements, o Op) error {
	op := call.String()
	if err := c.beginCollective(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.sameBuffers(&c.coll.operation, op, dst, src, k, o)
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, len(src)).reducing(o), err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, c.coll.allreduce(dst, src, k, o))
}

// allreduce combines src of all ranks with the current operation, which is that of k and o.
func (g *collState) allreduce(dst, src []byte, k Elements, o Op) error {
	if f := g.shmReduction(coll.OfAllreduce, len(src), k, o, 0); f != nil {
		return f.Allreduce(dst, src, &g.operation)
	}
	return coll.Allreduce(g, dst, src, &g.operation)
}

// Pairs are the buffers of several reductions. At returns those of one.
type Pairs struct {
	Dsts, Srcs int // numbers of buffers, which must be the same
	At         func(i int) (dst, src []byte)
}

// AllreduceMany is an Allreduce of each of several pairs of buffers, short ones together.
func (c *Comm) AllreduceMany(b Pairs, k Elements, o Op) error {
	const call = perf.Allreduce
	n := b.bytes()
	if err := c.beginIntracomm(call, n); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.samePairs(&c.coll.operation, call.String(), b, k, o)
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, n).reducing(o).blocks(b.counts(k), nil), err)
	}
	if err != nil {
		return err
	}
	scratch := &c.coll.scratch
	return c.wrapError(call.String(), coll.AllreduceMany(&c.coll, b.Srcs, b.At, func(dst, src []byte) error {
		used := scratch.used
		err := c.coll.allreduce(dst, src, k, o)
		scratch.used = used // what one Allreduce has used is free for the next
		return err
	}))
}

// bytes returns the number of bytes that this rank sends.
func (b Pairs) bytes() (n int) {
	for i := range min(b.Dsts, b.Srcs) {
		_, src := b.At(i)
		n += len(src)
	}
	return n
}

// counts returns the numbers of elements.
func (b Pairs) counts(k Elements) (counts []int) {
	for i := range min(b.Dsts, b.Srcs) {
		_, src := b.At(i)
		counts = append(counts, len(src)/k.Size())
	}
	return counts
}

// samePairs checks the buffers of reductions with results at all ranks, and sets their operation.
func (c *Comm) samePairs(x *coll.Operation, op string, b Pairs, k Elements, o Op) error {
	if b.Dsts != b.Srcs {
		return c.newError(op, ErrCount, fmt.Errorf("%d slices for the results of %d", b.Dsts, b.Srcs))
	}
	for i := range b.Srcs {
		dst, src := b.At(i)
		if err := c.checkSameSize(op, dst, src); err != nil {
			return err
		}
	}
	return c.operationOf(x, op, k, o)
}

// ReduceScatter combines src of all ranks, and stores counts[i] elements of the result in dst of rank i.
func (c *Comm) ReduceScatter(dst, src []byte, counts []int, k Elements, o Op) error {
	return c.reduceScatter(perf.ReduceScatter, dst, src, counts, k, o)
}

// ReduceScatterBlock is ReduceScatter with the same count for all ranks.
func (c *Comm) ReduceScatterBlock(dst, src []byte, k Elements, o Op) error {
	counts, err := c.equalCounts(perf.ReduceScatterBlock.String(), src, k)
	if err != nil {
		return err
	}
	return c.reduceScatter(perf.ReduceScatterBlock, dst, src, counts, k, o)
}

// equalCounts returns the counts of blocks of the same length for all ranks of the local group, which are src together.
func (c *Comm) equalCounts(op string, src []byte, k Elements) ([]int, error) {
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	n := len(src) / k.Size()
	if n%c.Size() != 0 {
		return nil, c.newError(op, ErrCount, fmt.Errorf("%d elements cannot be divided evenly among %d ranks", n, c.Size()))
	}
	return slices.Repeat([]int{n / c.Size()}, c.Size()), nil
}

func (c *Comm) reduceScatter(call perf.Op, dst, src []byte, counts []int, k Elements, o Op) error {
	if c.isInter() {
		return c.interReduceScatter(collMode{call: call, start: Blocking}, dst, src, counts, k, o)
	}
	op := call.String()
	if err := c.beginIntracomm(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	dst, err := c.ownResult(op, dst, src, counts, k)
	if err == nil {
		err = c.operationOf(&c.coll.operation, op, k, o)
	}
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, 0).reducing(o).blocks(counts, nil), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.shmReduction(coll.OfReduceScatter, len(src), k, o, hashOf(counts)); f != nil {
		return c.wrapError(op, f.ReduceScatter(dst, src, counts, &c.coll.operation))
	}
	return c.wrapError(op, coll.ReduceScatter(&c.coll, dst, src, counts, &c.coll.operation))
}

// ownResult checks the buffers and counts of a ReduceScatter, and returns the part of dst that it fills.
func (c *Comm) ownResult(op string, dst, src []byte, counts []int, k Elements) ([]byte, error) {
	total, err := c.sumCounts(op, counts)
	if err != nil {
		return nil, err
	}
	if total != len(src)/k.Size() {
		return nil, c.newError(op, ErrCount, fmt.Errorf("the sum of counts is %d, but src has %d elements", total, len(src)/k.Size()))
	}
	mine := counts[c.rank] * k.Size()
	if len(dst) < mine {
		return nil, c.newError(op, ErrCount,
			fmt.Errorf("dst has %d elements, but this rank's count is %d", len(dst)/k.Size(), counts[c.rank]))
	}
	dst = dst[:mine]
	if sameStart(dst, src) {
		return dst, nil
	}
	return dst, c.checkOverlap(op, dst, src)
}

// ReduceLocal combines src and dst into dst. The operands of src are those of the lower ranks.
func ReduceLocal(dst, src []byte, k Elements, o Op) error {
	const op = "ReduceLocal"
	x, class, err := operationOf(k, o)
	switch {
	case err != nil:
		return newError(op, class, err)
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
