package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Allgather collects src of all ranks into dst of every rank.
func (c *Comm) Allgather(dst, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAllgather(collMode{call: perf.Allgather, start: Blocking}, dst, src, k)
	}
	return c.allgather(perf.Allgather, dst, src, k)
}

func (c *Comm) allgather(call perf.Op, dst, src []byte, k Elements) error {
	op := call.String()
	if err := c.beginIntracomm(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	src, err := c.ownBlock(op, dst, src, k.Size())
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, len(src)), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.shmFor(coll.OfAllgather, len(src), k.shape(opCodeNone, 0)); f != nil {
		return c.wrapError(op, f.Allgather(dst, src))
	}
	return c.wrapError(op, coll.Allgather(&c.coll, dst, src))
}

// Allgatherv is Allgather with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Allgatherv(dst []byte, counts, displs []int, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAllgatherv(collMode{call: perf.Allgatherv, start: Blocking}, dst, counts, displs, src, k)
	}
	const op = "Allgatherv"
	if err := c.beginIntracomm(perf.Allgatherv, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	at, src, err := c.ownPartAtRoot(op, dst, counts, displs, src, k.Size())
	if c.checks {
		call := c.newCollCall(perf.Allgatherv, k, 0)
		call.Counts = counts
		err = c.compareCall(call, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Allgatherv(&c.coll, dst, at, src))
}
