package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// AllreduceMany is an Allreduce of each srcs[i] into dsts[i], in one call. The destination comes first. Short slices travel
// together: many of them cost hardly more than one. All ranks give the same number of slices, and of elements of each.
// Slices with different indices must not overlap. c is not an intercommunicator.
//
// Calls of [Allreduce] and [Iallreduce] are never combined by themselves: ranks start them at different times, so no rank
// knows which ones all ranks could combine. Not in MPI-5.0.
func AllreduceMany[T any](c *Comm, dsts, srcs [][]T, op Op) error {
	return public(c.core().Collectives().AllreduceMany(pairs(dsts, srcs), core.ValuesOf[T](), coreOp(op)))
}

// IallreduceMany starts an [AllreduceMany]. The program may change dsts and srcs when it has returned, but not their elements.
// Not in MPI-5.0.
func IallreduceMany[T any](c *Comm, dsts, srcs [][]T, op Op) (Request, error) {
	return request(c.core().Collectives().StartAllreduceMany(core.Immediate, pairs(dsts, srcs), core.ValuesOf[T](), coreOp(op)))
}

// AllreduceManyInit creates a persistent [AllreduceMany]. The program may change dsts and srcs when it has returned; their
// elements are used from each [Request.Start] until the request completes. Not in MPI-5.0.
func AllreduceManyInit[T any](c *Comm, dsts, srcs [][]T, op Op) (Request, error) {
	return request(c.core().Collectives().StartAllreduceMany(core.Persistent, pairs(dsts, srcs), core.ValuesOf[T](), coreOp(op)))
}

// pairs returns the bytes of slices.
func pairs[T any](dsts, srcs [][]T) core.Pairs {
	return core.Pairs{Dsts: len(dsts), Srcs: len(srcs), At: func(i int) (dst, src []byte) {
		return core.Bytes(dsts[i]), core.Bytes(srcs[i])
	}}
}
