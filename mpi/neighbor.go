package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// The functions of this file exchange data with the neighbors of a rank in the topology of the communicator, in the order of
// [Comm.Neighbors]. Without a topology they fail with ErrTopology. A neighbor that is ProcNull, at the border of a grid, has a
// block that does not change. What is sent along an edge must have the length that its receiver expects. dst and src must not
// overlap.

// NeighborAllgather sends src to all destinations, and collects the src of the sources in dst, in their order.
// MPI-5.0 §8.6.1.
func NeighborAllgather[T Elem](c *Comm, dst, src []T) error {
	return public(c.core().NeighborAllgather(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// IneighborAllgather starts a NeighborAllgather. MPI-5.0 §8.7.1.
func IneighborAllgather[T Elem](c *Comm, dst, src []T) (Request, error) {
	return request(c.core().IneighborAllgather(core.Now, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAllgatherInit creates a persistent NeighborAllgather. MPI-5.0 §8.8.1.
func NeighborAllgatherInit[T Elem](c *Comm, dst, src []T) (Request, error) {
	return request(c.core().IneighborAllgather(core.ByStart, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAllgatherv is NeighborAllgather with blocks of different lengths: counts[i] elements of source i at displs[i],
// or consecutively if displs is nil.
// MPI-5.0 §8.6.1.
func NeighborAllgatherv[T Elem](c *Comm, dst []T, counts, displs []int, src []T) error {
	return public(c.core().NeighborAllgatherv(core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
}

// IneighborAllgatherv starts a NeighborAllgatherv. MPI-5.0 §8.7.1.
func IneighborAllgatherv[T Elem](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return request(c.core().IneighborAllgatherv(core.Now, core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAllgathervInit creates a persistent NeighborAllgatherv. MPI-5.0 §8.8.1.
func NeighborAllgathervInit[T Elem](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return request(c.core().IneighborAllgatherv(core.ByStart, core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAlltoall sends block i of src to destination i, and stores the block from source i as block i of dst.
// MPI-5.0 §8.6.2.
func NeighborAlltoall[T Elem](c *Comm, dst, src []T) error {
	return public(c.core().NeighborAlltoall(core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// IneighborAlltoall starts a NeighborAlltoall. MPI-5.0 §8.7.2.
func IneighborAlltoall[T Elem](c *Comm, dst, src []T) (Request, error) {
	return request(c.core().IneighborAlltoall(core.Now, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAlltoallInit creates a persistent NeighborAlltoall. MPI-5.0 §8.8.2.
func NeighborAlltoallInit[T Elem](c *Comm, dst, src []T) (Request, error) {
	return request(c.core().IneighborAlltoall(core.ByStart, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
}

// NeighborAlltoallv is NeighborAlltoall with blocks of different lengths, as in [Alltoallv].
// MPI-5.0 §8.6.2.
func NeighborAlltoallv[T Elem](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	return public(c.core().NeighborAlltoallv(core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls,
		core.NumbersOf[T]()))
}

// IneighborAlltoallv starts a NeighborAlltoallv. MPI-5.0 §8.7.2.
func IneighborAlltoallv[T Elem](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	return request(c.core().IneighborAlltoallv(core.Now, core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls,
		core.NumbersOf[T]()))
}

// NeighborAlltoallvInit creates a persistent NeighborAlltoallv. MPI-5.0 §8.8.2.
func NeighborAlltoallvInit[T Elem](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	return request(c.core().IneighborAlltoallv(core.ByStart, core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls,
		core.NumbersOf[T]()))
}
