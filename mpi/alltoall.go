package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Alltoall sends part i of src to rank i, and stores the part from rank i as part i of dst. dst and src have the same
// length and may be the same slice. MPI-5.0 §6.8.
func Alltoall[T any](c *Comm, dst, src []T) error {
	if !core.IsNumber[T]() {
		return c.Alltoall(elements("Alltoall", dst), elements("Alltoall", src))
	}
	return public(c.core().Alltoall(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// Alltoallv sends scounts[i] elements of src at sdispls[i] to rank i, and receives rcounts[i] elements from rank i
// into dst at rdispls[i]. Without displacements the parts are consecutive. dst and src may be the same slice; rcounts
// and rdispls then describe both. MPI-5.0 §6.8.
func Alltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	if !core.IsNumber[T]() {
		const op = "Alltoallv"
		in, out, err := alltoallParts(op, dst, rcounts, rdispls, src, scounts, sdispls)
		if err != nil {
			return c.callError(op, err)
		}
		return c.alltoallw(perf.Alltoallv, in, out)
	}
	return public(c.core().Alltoallv(core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls, core.NumbersOf[T]()))
}
