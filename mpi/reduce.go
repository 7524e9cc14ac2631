package mpi

import (
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Barrier returns when all ranks have called it, those of both groups of an intercommunicator. MPI-5.0 §6.3.
func (c *Comm) Barrier() error { return c.barrier(perf.Barrier) }

func (c *Comm) barrier(as perf.Op) error {
	op := as.String()
	if err := c.beginCollective(as, 0); err != nil {
		return err
	}
	defer c.endCollective()
	if f := c.coll.flatFor(coll.OfBarrier, 0); f != nil {
		return c.wrapError(op, f.Barrier())
	}
	return c.wrapError(op, coll.Barrier(&c.coll))
}

// Reduce combines src of all ranks element by element into dst at root; dst is not used elsewhere and may be nil.
// At root dst and src may be the same slice. MPI-5.0 §6.9.1.
func Reduce[T Elem](c *Comm, dst, src []T, op Op, root int) error {
	return c.reduce(bytesOf(dst), bytesOf(src), kindOf[T](), op, root)
}

func (c *Comm) reduce(dst, src []byte, k datatype.Kind, o Op, root int) error {
	const op = "Reduce"
	if err := c.beginIntracomm(perf.Reduce, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	if root == c.Rank() {
		if err := c.checkSameSize(op, dst, src); err != nil {
			return err
		}
	} else {
		dst = nil
	}
	if err := c.setOperation(op, k, o); err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfReduce, len(src)); f != nil {
		return c.wrapError(op, f.Reduce(dst, src, &c.coll.operation, root))
	}
	return c.wrapError(op, coll.Reduce(&c.coll, dst, src, &c.coll.operation, root))
}

// checkSameSize checks the buffers of a reduction: of one length, and the same or apart.
func (c *Comm) checkSameSize(op string, dst, src []byte) error {
	if len(dst) != len(src) {
		return c.newError(op, ErrCount, fmt.Errorf("dst has %d bytes and src %d", len(dst), len(src)))
	}
	return c.checkOverlap(op, dst, src)
}

// Allreduce combines src of all ranks element by element into dst of each, with the same bits everywhere. dst and
// src may be the same slice. MPI-5.0 §6.9.6.
func Allreduce[T Elem](c *Comm, dst, src []T, op Op) error {
	if c != nil && c.localGroup != nil {
		return c.newError(perf.Allreduce.String(), ErrComm, errInter)
	}
	return c.allreduce(perf.Allreduce, bytesOf(dst), bytesOf(src), kindOf[T](), op)
}

// allreduce is among the processes of both groups in an intercommunicator.
func (c *Comm) allreduce(as perf.Op, dst, src []byte, k datatype.Kind, o Op) error {
	op := as.String()
	if err := c.beginCollective(as, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkSameSize(op, dst, src); err != nil {
		return err
	}
	if err := c.setOperation(op, k, o); err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfAllreduce, len(src)); f != nil {
		return c.wrapError(op, f.Allreduce(dst, src, &c.coll.operation))
	}
	return c.wrapError(op, coll.Allreduce(&c.coll, dst, src, &c.coll.operation))
}

// ReduceScatter combines src of all ranks and gives rank i the next counts[i] elements of the result, in dst.
// counts is the same at all ranks and adds up to len(src). dst may be src[:counts[rank]], or src itself.
// MPI-5.0 §6.10.2.
func ReduceScatter[T Elem](c *Comm, dst, src []T, counts []int, op Op) error {
	return c.reduceScatter(bytesOf(dst), bytesOf(src), counts, kindOf[T](), op)
}

func (c *Comm) reduceScatter(dst, src []byte, counts []int, k datatype.Kind, o Op) error {
	const op = "ReduceScatter"
	if err := c.beginIntracomm(perf.ReduceScatter, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	total, err := c.sumCounts(op, counts)
	if err != nil {
		return err
	}
	if total != len(src)/k.Size() {
		return c.newError(op, ErrCount, fmt.Errorf("counts add up to %d elements, src has %d", total, len(src)/k.Size()))
	}
	mine := counts[c.rank] * k.Size()
	if len(dst) < mine {
		return c.newError(op, ErrCount, fmt.Errorf("dst has %d elements, %d come", len(dst)/k.Size(), counts[c.rank]))
	}
	dst = dst[:mine]
	if !sameStart(dst, src) {
		if err := c.checkOverlap(op, dst, src); err != nil {
			return err
		}
	}
	if err := c.setOperation(op, k, o); err != nil {
		return err
	}
	return c.wrapError(op, coll.ReduceScatter(&c.coll, dst, src, counts, &c.coll.operation))
}

// sumCounts adds the counts of all ranks.
func (c *Comm) sumCounts(op string, counts []int) (total int, err error) {
	if len(counts) != len(c.peers) {
		return 0, c.newError(op, ErrCount, fmt.Errorf("%d counts for %d ranks", len(counts), len(c.peers)))
	}
	for i, n := range counts {
		if n < 0 || n > math.MaxInt-total {
			return 0, c.newError(op, ErrCount, fmt.Errorf("count %d of rank %d", n, i))
		}
		total += n
	}
	return total, nil
}

// Scan combines src of ranks 0 to this one into dst. dst and src may be the same slice. MPI-5.0 §6.11.1.
func Scan[T Elem](c *Comm, dst, src []T, op Op) error {
	return c.scan(perf.Scan, coll.Scan, bytesOf(dst), bytesOf(src), kindOf[T](), op)
}

// Exscan combines src of the ranks below this one into dst; that of rank 0 stays as it is. dst and src may be the
// same slice. MPI-5.0 §6.11.2.
func Exscan[T Elem](c *Comm, dst, src []T, op Op) error {
	return c.scan(perf.Exscan, coll.Exscan, bytesOf(dst), bytesOf(src), kindOf[T](), op)
}

func (c *Comm) scan(as perf.Op, f func(coll.Peer, []byte, []byte, *coll.Operation) error, dst, src []byte,
	k datatype.Kind, o Op) error {
	op := as.String()
	if err := c.beginIntracomm(as, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkSameSize(op, dst, src); err != nil {
		return err
	}
	if err := c.setOperation(op, k, o); err != nil {
		return err
	}
	return c.wrapError(op, f(&c.coll, dst, src, &c.coll.operation))
}
