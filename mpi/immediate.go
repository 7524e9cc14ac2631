package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// The functions of this file start a collective and return a [Request] for it. All ranks make these calls of a communicator in
// the same order, with arguments as for the blocking form. Any number may be in progress, and blocking collectives and messages
// beside them. An immediate collective does not match the blocking one.
//
// Until the request has completed, buffers must not be changed, those of results must not be read, and counts and displacements
// must not be changed. While the program computes, a goroutine of this package makes progress, which needs a processor (see
// GOMAXPROCS) from time to time. It polls for a moment, then sleeps, and ends when a call of this package waits. A request of a
// collective cannot be cancelled or freed (ErrRequest). If a process is lost, the collective fails with ErrProcFailed at the
// ranks that need it, and so do all later collectives of the communicator.
//
// A function of [NewOp] must not call this package. If it panics, the request fails with the panic as an error, an
// [attrs.PanicError].

// Ibarrier starts a Barrier. The request completes when all ranks have called Ibarrier. MPI-5.0 §6.12.1.
func (c *Comm) Ibarrier() (Request, error) { return request(c.core().Ibarrier(core.Immediate)) }

// Ibcast starts a Bcast. MPI-5.0 §6.12.2.
func Ibcast[T any](c *Comm, x []T, root int) (Request, error) {
	return startBcast(c, core.Immediate, x, root)
}

// Igather starts a Gather. MPI-5.0 §6.12.3.
func Igather[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startGather(c, core.Immediate, dst, src, root)
}

// Igatherv starts a Gatherv. MPI-5.0 §6.12.3.
func Igatherv[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) (Request, error) {
	return startGatherv(c, core.Immediate, dst, counts, displs, src, root)
}

// Iscatter starts a Scatter. MPI-5.0 §6.12.4.
func Iscatter[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startScatter(c, core.Immediate, dst, src, root)
}

// Iscatterv starts a Scatterv. MPI-5.0 §6.12.4.
func Iscatterv[T any](c *Comm, dst, src []T, counts, displs []int, root int) (Request, error) {
	return startScatterv(c, core.Immediate, dst, src, counts, displs, root)
}

// Iallgather starts an Allgather. MPI-5.0 §6.12.5.
func Iallgather[T any](c *Comm, dst, src []T) (Request, error) {
	return startAllgather(c, core.Immediate, dst, src)
}

// Iallgatherv starts an Allgatherv. MPI-5.0 §6.12.5.
func Iallgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startAllgatherv(c, core.Immediate, dst, counts, displs, src)
}

// Ialltoall starts an Alltoall. MPI-5.0 §6.12.6.
func Ialltoall[T any](c *Comm, dst, src []T) (Request, error) {
	return startAlltoall(c, core.Immediate, dst, src)
}

// Ialltoallv starts an Alltoallv. MPI-5.0 §6.12.6.
func Ialltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (Request, error) {
	return startAlltoallv(c, core.Immediate, dst, rcounts, rdispls, src, scounts, sdispls)
}

// Ireduce starts a Reduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.7.
func Ireduce[T any](c *Comm, dst, src []T, op Op, root int) (Request, error) {
	return request(c.core().Ireduce(core.Immediate, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op), root))
}

// Iallreduce starts an Allreduce. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.8.
func Iallreduce[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iallreduce(core.Immediate, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// IreduceScatter starts a ReduceScatter. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.10.
func IreduceScatter[T any](c *Comm, dst, src []T, counts []int, op Op) (Request, error) {
	return request(c.core().IreduceScatter(core.Immediate, core.Bytes(dst), core.Bytes(src), counts, core.ValuesOf[T](), coreOp(op)))
}

// IreduceScatterBlock starts a ReduceScatterBlock. MPI-5.0 §6.12.9.
func IreduceScatterBlock[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().IreduceScatterBlock(core.Immediate, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// Iscan starts a Scan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.11.
func Iscan[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iscan(core.Immediate, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}

// Iexscan starts an Exscan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.12.
func Iexscan[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return request(c.core().Iexscan(core.Immediate, core.Bytes(dst), core.Bytes(src), core.ValuesOf[T](), coreOp(op)))
}
