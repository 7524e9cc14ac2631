package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Bcast copies the root's x to x of every rank. All ranks must give the same length. MPI-5.0 §6.4.
func Bcast[T any](c *Comm, x []T, root int) error {
	if !core.IsNumber[T]() {
		return c.Bcast(elements("Bcast", x), root)
	}
	return public(c.core().Bcast(core.Bytes(x), core.NumbersOf[T](), root))
}
