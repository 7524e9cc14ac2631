package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Allgather collects src of all ranks into dst of every rank, in the order of ranks. In place: src is dst, or this
// rank's part of dst. MPI-5.0 §6.7.
func Allgather[T any](c *Comm, dst, src []T) error {
	if !core.IsNumber[T]() {
		return c.Allgather(elements("Allgather", dst), elements("Allgather", src))
	}
	return public(c.core().Allgather(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// Allgatherv collects src of all ranks into dst of every rank: counts[i] elements of rank i at displs[i], or
// consecutively if displs is nil. In place as in Allgather. MPI-5.0 §6.7.
func Allgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) error {
	if !core.IsNumber[T]() {
		const op = "Allgatherv"
		parts, own, err := allgatherParts(op, c, dst, counts, displs, src)
		if err != nil {
			return c.callError(op, err)
		}
		return c.Allgatherv(parts, own)
	}
	return public(c.core().Allgatherv(core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
}
