package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// The functions and methods of this file exchange data with the neighbors of a rank in the topology of the communicator, in the
// order of [Comm.Neighbors]. Without a topology they fail with ErrTopology. A neighbor that is ProcNull, at the border of a grid,
// has a block that does not change. What is sent along an edge must have the length that its receiver expects. dst and src must
// not overlap.

// NeighborAllgather sends src to all destinations, and collects the src of the sources in dst, in their order. MPI-5.0 §8.6.1.
func NeighborAllgather[T any](c *Comm, dst, src []T) error {
	_, err := startNeighborAllgather(c, core.Blocking, dst, src)
	return err
}

// IneighborAllgather starts a NeighborAllgather. MPI-5.0 §8.7.1.
func IneighborAllgather[T any](c *Comm, dst, src []T) (Request, error) {
	return startNeighborAllgather(c, core.Immediate, dst, src)
}

// NeighborAllgatherInit creates a persistent NeighborAllgather. MPI-5.0 §8.8.1.
func NeighborAllgatherInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startNeighborAllgather(c, core.Persistent, dst, src)
}

// NeighborAllgatherv is NeighborAllgather with blocks of different lengths: counts[i] elements of source i at displs[i],
// or consecutively if displs is nil. MPI-5.0 §8.6.1.
func NeighborAllgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) error {
	_, err := startNeighborAllgatherv(c, core.Blocking, dst, counts, displs, src)
	return err
}

// IneighborAllgatherv starts a NeighborAllgatherv. MPI-5.0 §8.7.1.
func IneighborAllgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startNeighborAllgatherv(c, core.Immediate, dst, counts, displs, src)
}

// NeighborAllgathervInit creates a persistent NeighborAllgatherv. MPI-5.0 §8.8.1.
func NeighborAllgathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startNeighborAllgatherv(c, core.Persistent, dst, counts, displs, src)
}

// NeighborAlltoall sends block i of src to destination i, and stores the block from source i as block i of dst. MPI-5.0 §8.6.2.
func NeighborAlltoall[T any](c *Comm, dst, src []T) error {
	_, err := startNeighborAlltoall(c, core.Blocking, dst, src)
	return err
}

// IneighborAlltoall starts a NeighborAlltoall. MPI-5.0 §8.7.2.
func IneighborAlltoall[T any](c *Comm, dst, src []T) (Request, error) {
	return startNeighborAlltoall(c, core.Immediate, dst, src)
}

// NeighborAlltoallInit creates a persistent NeighborAlltoall. MPI-5.0 §8.8.2.
func NeighborAlltoallInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startNeighborAlltoall(c, core.Persistent, dst, src)
}

// NeighborAlltoallv is NeighborAlltoall with blocks of different lengths, as in [Alltoallv]. MPI-5.0 §8.6.2.
func NeighborAlltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	_, err := startNeighborAlltoallv(c, core.Blocking, dst, rcounts, rdispls, src, scounts, sdispls)
	return err
}

// IneighborAlltoallv starts a NeighborAlltoallv. MPI-5.0 §8.7.2.
func IneighborAlltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	return startNeighborAlltoallv(c, core.Immediate, dst, rcounts, rdispls, src, scounts, sdispls)
}

// NeighborAlltoallvInit creates a persistent NeighborAlltoallv. MPI-5.0 §8.8.2.
func NeighborAlltoallvInit[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	return startNeighborAlltoallv(c, core.Persistent, dst, rcounts, rdispls, src, scounts, sdispls)
}

func startNeighborAllgather[T any](c *Comm, start core.Start, dst, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().NeighborAllgather(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.IneighborAllgather)
	return c.startNeighborAllgather(start, elements(op, dst), elements(op, src))
}

func startNeighborAllgatherv[T any](c *Comm, start core.Start, dst []T, counts, displs []int, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().NeighborAllgatherv(start, core.Bytes(dst), counts, displs, core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.IneighborAllgatherv)
	parts, err := partsOf(op, dst, counts, displs)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startNeighborAllgatherv(start, parts, elements(op, src))
}

func startNeighborAlltoall[T any](c *Comm, start core.Start, dst, src []T) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().NeighborAlltoall(start, core.Bytes(dst), core.Bytes(src), core.NumbersOf[T]()))
	}
	op := start.Name(perf.IneighborAlltoall)
	return c.startNeighborAlltoall(start, elements(op, dst), elements(op, src))
}

func startNeighborAlltoallv[T any](c *Comm, start core.Start, dst []T, rcounts, rdispls []int, src []T,
	scounts, sdispls []int,
) (Request, error) {
	if core.IsNumber[T]() {
		return request(c.core().NeighborAlltoallv(start, core.Bytes(dst), rcounts, rdispls, core.Bytes(src), scounts, sdispls,
			core.NumbersOf[T]()))
	}
	const call = perf.IneighborAlltoallv
	op := start.Name(call)
	in, err := partsOf(op, dst, rcounts, rdispls)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	out, err := partsOf(op, src, scounts, sdispls)
	if err != nil {
		return Request{}, c.callError(op, err)
	}
	return c.startNeighborAlltoallw(call, start, in, out)
}
