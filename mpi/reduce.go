package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Reduce combines src of all ranks element by element into dst at root. The destination comes first. Other ranks do not use
// dst, which may be nil. At root dst and src may be the same slice.
//
// Elements of reductions are numbers, and structs and arrays without pointers. These take operations that NewOp has made
// for their type: predefined ones fail with ErrOp. They move as whole values, padding included. MPI-5.0 §6.9.1.
func Reduce[T any](c *Comm, dst, src []T, op Op, root int) error {
	return public(c.core().Reduce(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op), root))
}

// Allreduce combines src of all ranks element by element into dst of every rank. The destination comes first. The result
// has the same bits at all ranks. dst and src may be the same slice. MPI-5.0 §6.9.6.
func Allreduce[T any](c *Comm, dst, src []T, op Op) error {
	return public(c.core().Allreduce(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// ReduceScatter combines src of all ranks, and stores counts[i] elements of the result in dst of rank i, in the order of
// ranks. The destination comes first. counts is the same at all ranks, and its sum is len(src). dst may be
// src[:counts[rank]] or src itself. MPI-5.0 §6.10.2.
func ReduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op) error {
	return public(c.core().ReduceScatter(core.Bytes(dst), core.Bytes(src), counts, core.ValuesOf[T](), coreOp(op)))
}

// ReduceScatterBlock is ReduceScatter with the same count for all ranks: len(src) divided by the number of ranks. The
// destination comes first. MPI-5.0 §6.10.1.
func ReduceScatterBlock[T any](c *Comm, dst, src []T, op Op) error {
	return public(c.core().ReduceScatterBlock(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// ReduceLocal sets dst[i] = src[i] op dst[i] for all i, at this rank alone. The slices have the same length, and are the same or
// do not overlap. It is local. MPI-5.0 §6.9.7.
func ReduceLocal[T any](dst, src []T, op Op) error {
	return public(core.ReduceLocal(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}
