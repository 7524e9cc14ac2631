package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Scan combines src of rank 0 up to this rank into dst.
func (c *Comm) Scan(dst, src []byte, k Elements, o Op) error {
	return c.scan(perf.Scan, coll.Scan, dst, src, k, o)
}

// Exscan combines src of the ranks below this one into dst. At rank 0 dst is not changed.
func (c *Comm) Exscan(dst, src []byte, k Elements, o Op) error {
	return c.scan(perf.Exscan, coll.Exscan, dst, src, k, o)
}

func (c *Comm) scan(call perf.Op, f func(coll.Peer, []byte, []byte, *coll.Operation) error, dst, src []byte,
	k Elements, o Op) error {
	op := call.String()
	if err := c.beginIntracomm(call, len(src)); err != nil {
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
	return c.wrapError(op, f(&c.coll, dst, src, &c.coll.operation))
}
