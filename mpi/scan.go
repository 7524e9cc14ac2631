package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Scan combines src of rank 0 up to this rank into dst. dst and src may be the same slice. MPI-5.0 §6.11.1.
func Scan[T Elem](c *Comm, dst, src []T, op Op) error {
	return c.scan(perf.Scan, coll.Scan, bytesOf(dst), bytesOf(src), kindOf[T](), op)
}

// Exscan combines src of the ranks below this one into dst. At rank 0 dst is not changed. dst and src may be the same
// slice. MPI-5.0 §6.11.2.
func Exscan[T Elem](c *Comm, dst, src []T, op Op) error {
	return c.scan(perf.Exscan, coll.Exscan, bytesOf(dst), bytesOf(src), kindOf[T](), op)
}

func (c *Comm) scan(call perf.Op, f func(coll.Peer, []byte, []byte, *coll.Operation) error, dst, src []byte,
	k datatype.Kind, o Op) error {
	op := call.String()
	if err := c.beginIntracomm(call, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkSameSize(op, dst, src)
	if err == nil {
		err = c.setOperation(op, k, o)
	}
	if c.checks {
		err = c.compareCall(c.newCollCall(call, k, len(src)).reducing(o), err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, f(&c.coll, dst, src, &c.coll.operation))
}
