package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Allreduce combines src of all ranks element by element into dst of every rank. The destination comes first. The result
// has the same bits at all ranks. dst and src may be the same slice. MPI-5.0 §6.9.6.
func Allreduce[T any](c *Comm, dst, src []T, op Op) error {
	return callValues(c, &core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, dst, src)
}

// Iallreduce starts an Allreduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.8.
func Iallreduce[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Immediate, &core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, dst, src)
}

// AllreduceInit creates a persistent Allreduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.8.
func AllreduceInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Persistent, &core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, dst, src)
}

// Allreduce is [Allreduce] of views, as [Comm.Reduce].
// MPI-5.0 §6.9.6.
func (c *Comm) Allreduce(dst, src View, op Op) error {
	return c.callViews(&core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, &dst, &src)
}

// Iallreduce starts a [Comm.Allreduce]. MPI-5.0 §6.12.8.
func (c *Comm) Iallreduce(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, &dst, &src)
}

// AllreduceInit creates a persistent [Comm.Allreduce]. MPI-5.0 §6.13.8.
func (c *Comm) AllreduceInit(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Allreduce, Op: coreOp(op)}, &dst, &src)
}
