package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Scatter copies part i of root's src to dst of rank i. Other ranks do not use src, which may be nil. In place at
// root: dst is src, or root's part of src. MPI-5.0 §6.6.
func Scatter[T any](c *Comm, dst, src []T, root int) error {
	if !core.IsNumber[T]() {
		return c.Scatter(elements("Scatter", dst), elements("Scatter", src), root)
	}
	return public(c.core().Scatter(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T](), root))
}

// Scatterv copies a part of root's src to dst of every rank: counts[i] elements at displs[i] to rank i, or
// consecutive parts if displs is nil. Only root uses src, counts and displs. In place at root as in Scatter.
// MPI-5.0 §6.6.
func Scatterv[T any](c *Comm, dst []T, src []T, counts, displs []int, root int) error {
	if !core.IsNumber[T]() {
		const op = "Scatterv"
		parts, own, err := gatherParts(op, c, src, counts, displs, dst, root)
		if err != nil {
			return c.callError(op, err)
		}
		return c.Scatterv(own, parts, root)
	}
	return public(c.core().Scatterv(core.Bytes(dst), core.Bytes(src), counts, displs, core.NumbersOf[T](), root))
}
