package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Scan combines src of rank 0 up to this rank into dst. The destination comes first. dst and src may be the same slice.
// MPI-5.0 §6.11.1.
func Scan[T any](c *Comm, dst, src []T, op Op) error {
	return public(c.core().Scan(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// Exscan combines src of the ranks below this one into dst. The destination comes first. At rank 0 dst is not changed. dst
// and src may be the same slice. MPI-5.0 §6.11.2.
func Exscan[T any](c *Comm, dst, src []T, op Op) error {
	return public(c.core().Exscan(core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}
