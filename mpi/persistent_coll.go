package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// The functions of this file create a persistent request for a collective. Each [Request.Start] starts it as an immediate
// collective, with the same buffers, whose contents may have changed. All ranks create the requests of a communicator in the same
// order as they start immediate collectives, and start each request equally often. Counts and displacements are not used after
// the call. What a collective must prepare, such as the order of its messages, is prepared once.
//
// A request is freed by [Request.Free] when it is not active. It cannot be cancelled.

// BarrierInit creates a persistent Barrier. MPI-5.0 §6.13.1.
func (c *Comm) BarrierInit() (Request, error) { return request(c.core().Ibarrier(core.Persistent)) }

// BcastInit creates a persistent Bcast. MPI-5.0 §6.13.2.
func BcastInit[T any](c *Comm, x []T, root int) (Request, error) {
	return startBcast(c, core.Persistent, x, root)
}

// GatherInit creates a persistent Gather. MPI-5.0 §6.13.3.
func GatherInit[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startGather(c, core.Persistent, dst, src, root)
}

// GathervInit creates a persistent Gatherv. MPI-5.0 §6.13.3.
func GathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) (Request, error) {
	return startGatherv(c, core.Persistent, dst, counts, displs, src, root)
}

// ScatterInit creates a persistent Scatter. MPI-5.0 §6.13.4.
func ScatterInit[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startScatter(c, core.Persistent, dst, src, root)
}

// ScattervInit creates a persistent Scatterv. MPI-5.0 §6.13.4.
func ScattervInit[T any](c *Comm, dst, src []T, counts, displs []int, root int) (Request, error) {
	return startScatterv(c, core.Persistent, dst, src, counts, displs, root)
}

// AllgatherInit creates a persistent Allgather. MPI-5.0 §6.13.5.
func AllgatherInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startAllgather(c, core.Persistent, dst, src)
}

// AllgathervInit creates a persistent Allgatherv. MPI-5.0 §6.13.5.
func AllgathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startAllgatherv(c, core.Persistent, dst, counts, displs, src)
}

// AlltoallInit creates a persistent Alltoall. MPI-5.0 §6.13.6.
func AlltoallInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startAlltoall(c, core.Persistent, dst, src)
}

// AlltoallvInit creates a persistent Alltoallv. MPI-5.0 §6.13.6.
func AlltoallvInit[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (Request, error) {
	return startAlltoallv(c, core.Persistent, dst, rcounts, rdispls, src, scounts, sdispls)
}

// ReduceInit creates a persistent Reduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.7.
func ReduceInit[T any](c *Comm, dst, src []T, op Op, root int) (Request, error) {
	return request(c.core().Ireduce(core.Persistent, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op), root))
}

// AllreduceInit creates a persistent Allreduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.8.
func AllreduceInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iallreduce(core.Persistent, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// ReduceScatterInit creates a persistent ReduceScatter. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.10.
func ReduceScatterInit[T any](c *Comm, dst, src []T, counts []int, op Op) (Request, error) {
	return request(c.core().IreduceScatter(core.Persistent, core.Bytes(dst), core.Bytes(src), counts, core.ValuesOf[T](),
		coreOp(op)))
}

// ReduceScatterBlockInit creates a persistent ReduceScatterBlock. MPI-5.0 §6.13.9.
func ReduceScatterBlockInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().IreduceScatterBlock(core.Persistent, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// ScanInit creates a persistent Scan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.11.
func ScanInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iscan(core.Persistent, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// ExscanInit creates a persistent Exscan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.12.
func ExscanInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iexscan(core.Persistent, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}
