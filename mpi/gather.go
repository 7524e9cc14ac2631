package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Gather collects src of all ranks into dst at root, in the order of ranks. Other ranks do not use dst, which may be
// nil. In place at root: src is dst, or root's part of dst. MPI-5.0 §6.5.
func Gather[T any](c *Comm, dst, src []T, root int) error {
	if !core.IsNumber[T]() {
		return c.Gather(elements("Gather", dst), elements("Gather", src), root)
	}
	return public(c.core().Gather(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T](), root))
}

// Gatherv collects src of all ranks into dst at root: counts[i] elements of rank i at displs[i], or consecutively if
// displs is nil. Only root uses dst, counts and displs. In place at root as in Gather. MPI-5.0 §6.5.
func Gatherv[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) error {
	if !core.IsNumber[T]() {
		const op = "Gatherv"
		parts, own, err := gatherParts(op, c, dst, counts, displs, src, root)
		if err != nil {
			return c.callError(op, err)
		}
		return c.Gatherv(parts, own, root)
	}
	return public(c.core().Gatherv(core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T](), root))
}
