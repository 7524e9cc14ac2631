package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Bcast copies the root's x to x of every rank. All ranks must give the same length. MPI-5.0 §6.4.
func Bcast[T Elem](c *Comm, x []T, root int) error { return c.bcast(bytesOf(x), kindOf[T](), root) }

func (c *Comm) bcast(b []byte, k datatype.Kind, root int) error {
	const op = "Bcast"
	if err := c.beginIntracomm(perf.Bcast, len(b)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Bcast, k, len(b)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfBcast, len(b), callShape{kind: k, root: root}); f != nil {
		return c.wrapError(op, f.Bcast(b, root))
	}
	return c.wrapError(op, coll.Bcast(&c.coll, b, root))
}
