package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// ReduceScatter combines src of all ranks, and stores counts[i] elements of the result in dst of rank i, in the order of
// ranks. The destination comes first. counts is the same at all ranks, and its sum is len(src). dst may be
// src[:counts[rank]] or src itself. MPI-5.0 §6.10.2.
func ReduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op) error {
	return callValues(c, &core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}, dst, src)
}

// IreduceScatter starts a ReduceScatter. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.10.
func IreduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op) (Request, error) {
	x := &core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}
	return startValues(c, core.Immediate, x, dst, src)
}

// ReduceScatterInit creates a persistent ReduceScatter. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.10.
func ReduceScatterInit[T any](c *Comm, dst, src []T, counts []int, op Op) (Request, error) {
	x := &core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}
	return startValues(c, core.Persistent, x, dst, src)
}

// ReduceScatter is [ReduceScatter] of views, as [Comm.Reduce]. Rank i gets counts[i] numbers, in the first ones of dst.
// MPI-5.0 §6.10.2.
func (c *Comm) ReduceScatter(dst, src View, counts []int, op Op) error {
	return c.callViews(&core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}, &dst, &src)
}

// IreduceScatter starts a [Comm.ReduceScatter]. MPI-5.0 §6.12.10.
func (c *Comm) IreduceScatter(dst, src View, counts []int, op Op) (Request, error) {
	x := &core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}
	return c.startViews(core.Immediate, x, &dst, &src)
}

// ReduceScatterInit creates a persistent [Comm.ReduceScatter]. MPI-5.0 §6.13.10.
func (c *Comm) ReduceScatterInit(dst, src View, counts []int, op Op) (Request, error) {
	x := &core.Collective{Kind: perf.ReduceScatter, To: core.Blocks(counts, nil), Op: coreOp(op)}
	return c.startViews(core.Persistent, x, &dst, &src)
}

// ReduceScatterBlock is ReduceScatter with the same count for all ranks: len(src) divided by the number of ranks. The
// destination comes first. MPI-5.0 §6.10.1.
func ReduceScatterBlock[T any](c *Comm, dst, src []T, op Op) error {
	return callValues(c, &core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, dst, src)
}

// IreduceScatterBlock starts a ReduceScatterBlock. MPI-5.0 §6.12.9.
func IreduceScatterBlock[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Immediate, &core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, dst, src)
}

// ReduceScatterBlockInit creates a persistent ReduceScatterBlock. MPI-5.0 §6.13.9.
func ReduceScatterBlockInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Persistent, &core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, dst, src)
}

// ReduceScatterBlock is [ReduceScatterBlock] of views, as [Comm.Reduce].
// MPI-5.0 §6.10.1.
func (c *Comm) ReduceScatterBlock(dst, src View, op Op) error {
	return c.callViews(&core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, &dst, &src)
}

// IreduceScatterBlock starts a [Comm.ReduceScatterBlock]. MPI-5.0 §6.12.9.
func (c *Comm) IreduceScatterBlock(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, &dst, &src)
}

// ReduceScatterBlockInit creates a persistent [Comm.ReduceScatterBlock]. MPI-5.0 §6.13.9.
func (c *Comm) ReduceScatterBlockInit(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.ReduceScatterBlock, Op: coreOp(op)}, &dst, &src)
}
