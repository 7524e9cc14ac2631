package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Reduce combines src of all ranks element by element into dst at root. The destination comes first. Other ranks do not use
// dst, which may be nil. At root dst and src may be the same slice.
//
// Elements of reductions are numbers, and structs and arrays without pointers. These take operations that NewOp has made
// for their type: predefined ones fail with ErrOp. They move as whole values, padding included. MPI-5.0 §6.9.1.
func Reduce[T any](c *Comm, dst, src []T, op Op, root int) error {
	return callValues(c, &core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, dst, src)
}

// Ireduce starts a Reduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.7.
func Ireduce[T any](c *Comm, dst, src []T, op Op, root int) (Request, error) {
	return startValues(c, core.Immediate, &core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, dst, src)
}

// ReduceInit creates a persistent Reduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.7.
func ReduceInit[T any](c *Comm, dst, src []T, op Op, root int) (Request, error) {
	return startValues(c, core.Persistent, &core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, dst, src)
}

// Reduce is [Reduce] of views, which consist of numbers of one kind and have the same number of them. The destination comes
// first. Ranks other than root do not use dst, which may be the zero View. MPI-5.0 §6.9.1.
func (c *Comm) Reduce(dst, src View, op Op, root int) error {
	return c.callViews(&core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, &dst, &src)
}

// Ireduce starts a [Comm.Reduce]. MPI-5.0 §6.12.7.
func (c *Comm) Ireduce(dst, src View, op Op, root int) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, &dst, &src)
}

// ReduceInit creates a persistent [Comm.Reduce]. MPI-5.0 §6.13.7.
func (c *Comm) ReduceInit(dst, src View, op Op, root int) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Reduce, Op: coreOp(op), Root: root}, &dst, &src)
}

// ReduceLocal sets dst[i] = src[i] op dst[i] for all i, at this rank alone. The slices have the same length, and are the same or
// do not overlap. It is local. MPI-5.0 §6.9.7.
func ReduceLocal[T any](dst, src []T, op Op) error {
	return public(core.ReduceLocal(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}
