package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Reductions of views. A view that is one block of memory is used in place; of others the numbers are packed, reduced, and
// unpacked. The operation is a predefined one, or one that NewOp has made for the type of the numbers. A view with numbers of
// several kinds is an error of class ErrOp.

// Reduce is [Reduce] of views, which consist of numbers of one kind and have the same number of them. The destination comes
// first. Ranks other than root do not use dst, which may be the zero View. MPI-5.0 §6.9.1.
func (c *Comm) Reduce(dst, src View, op Op, root int) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Reduce", firstError(&dst, &src))
	}
	return public(c.core().ReduceData(&dst.data, &src.data, coreOp(op), root))
}

// Allreduce is [Allreduce] of views, as [Comm.Reduce].
// MPI-5.0 §6.9.6.
func (c *Comm) Allreduce(dst, src View, op Op) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Allreduce", firstError(&dst, &src))
	}
	return public(c.core().AllreduceData(&dst.data, &src.data, coreOp(op)))
}

// ReduceScatter is [ReduceScatter] of views, as [Comm.Reduce]. Rank i gets counts[i] numbers, in the first ones of dst.
// MPI-5.0 §6.10.2.
func (c *Comm) ReduceScatter(dst, src View, counts []int, op Op) error {
	if dst.err != nil || src.err != nil {
		return c.callError("ReduceScatter", firstError(&dst, &src))
	}
	return public(c.core().ReduceScatterData(&dst.data, &src.data, counts, coreOp(op)))
}

// ReduceScatterBlock is [ReduceScatterBlock] of views, as [Comm.Reduce].
// MPI-5.0 §6.10.1.
func (c *Comm) ReduceScatterBlock(dst, src View, op Op) error {
	if dst.err != nil || src.err != nil {
		return c.callError("ReduceScatterBlock", firstError(&dst, &src))
	}
	return public(c.core().ReduceScatterBlockData(&dst.data, &src.data, coreOp(op)))
}

// Scan is [Scan] of views, as [Comm.Reduce].
// MPI-5.0 §6.11.1.
func (c *Comm) Scan(dst, src View, op Op) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Scan", firstError(&dst, &src))
	}
	return public(c.core().ScanData(&dst.data, &src.data, coreOp(op)))
}

// Exscan is [Exscan] of views, as [Comm.Reduce]. At rank 0 dst is not changed.
// MPI-5.0 §6.11.2.
func (c *Comm) Exscan(dst, src View, op Op) error {
	if dst.err != nil || src.err != nil {
		return c.callError("Exscan", firstError(&dst, &src))
	}
	return public(c.core().ExscanData(&dst.data, &src.data, coreOp(op)))
}

// Ireduce starts a [Comm.Reduce]. MPI-5.0 §6.12.7.
func (c *Comm) Ireduce(dst, src View, op Op, root int) (Request, error) {
	return c.startReduce(core.Immediate, dst, src, op, root)
}

// ReduceInit creates a persistent [Comm.Reduce]. MPI-5.0 §6.13.7.
func (c *Comm) ReduceInit(dst, src View, op Op, root int) (Request, error) {
	return c.startReduce(core.Persistent, dst, src, op, root)
}

func (c *Comm) startReduce(start core.Start, dst, src View, op Op, root int) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Ireduce), err)
	}
	return request(c.core().IreduceData(start, &dst.data, &src.data, coreOp(op), root))
}

// Iallreduce starts a [Comm.Allreduce]. MPI-5.0 §6.12.8.
func (c *Comm) Iallreduce(dst, src View, op Op) (Request, error) {
	return c.startAllreduce(core.Immediate, dst, src, op)
}

// AllreduceInit creates a persistent [Comm.Allreduce]. MPI-5.0 §6.13.8.
func (c *Comm) AllreduceInit(dst, src View, op Op) (Request, error) {
	return c.startAllreduce(core.Persistent, dst, src, op)
}

func (c *Comm) startAllreduce(start core.Start, dst, src View, op Op) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Iallreduce), err)
	}
	return request(c.core().IallreduceData(start, &dst.data, &src.data, coreOp(op)))
}

// IreduceScatter starts a [Comm.ReduceScatter]. MPI-5.0 §6.12.10.
func (c *Comm) IreduceScatter(dst, src View, counts []int, op Op) (Request, error) {
	return c.startReduceScatter(core.Immediate, dst, src, counts, op)
}

// ReduceScatterInit creates a persistent [Comm.ReduceScatter]. MPI-5.0 §6.13.10.
func (c *Comm) ReduceScatterInit(dst, src View, counts []int, op Op) (Request, error) {
	return c.startReduceScatter(core.Persistent, dst, src, counts, op)
}

func (c *Comm) startReduceScatter(start core.Start, dst, src View, counts []int, op Op) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.IreduceScatter), err)
	}
	return request(c.core().IreduceScatterData(start, &dst.data, &src.data, counts, coreOp(op)))
}

// IreduceScatterBlock starts a [Comm.ReduceScatterBlock]. MPI-5.0 §6.12.9.
func (c *Comm) IreduceScatterBlock(dst, src View, op Op) (Request, error) {
	return c.startReduceScatterBlock(core.Immediate, dst, src, op)
}

// ReduceScatterBlockInit creates a persistent [Comm.ReduceScatterBlock]. MPI-5.0 §6.13.9.
func (c *Comm) ReduceScatterBlockInit(dst, src View, op Op) (Request, error) {
	return c.startReduceScatterBlock(core.Persistent, dst, src, op)
}

func (c *Comm) startReduceScatterBlock(start core.Start, dst, src View, op Op) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.IreduceScatterBlock), err)
	}
	return request(c.core().IreduceScatterBlockData(start, &dst.data, &src.data, coreOp(op)))
}

// Iscan starts a [Comm.Scan]. MPI-5.0 §6.12.11.
func (c *Comm) Iscan(dst, src View, op Op) (Request, error) {
	return c.startScan(core.Immediate, dst, src, op)
}

// ScanInit creates a persistent [Comm.Scan]. MPI-5.0 §6.13.11.
func (c *Comm) ScanInit(dst, src View, op Op) (Request, error) {
	return c.startScan(core.Persistent, dst, src, op)
}

func (c *Comm) startScan(start core.Start, dst, src View, op Op) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Iscan), err)
	}
	return request(c.core().IscanData(start, &dst.data, &src.data, coreOp(op)))
}

// Iexscan starts a [Comm.Exscan]. MPI-5.0 §6.12.12.
func (c *Comm) Iexscan(dst, src View, op Op) (Request, error) {
	return c.startExscan(core.Immediate, dst, src, op)
}

// ExscanInit creates a persistent [Comm.Exscan]. MPI-5.0 §6.13.12.
func (c *Comm) ExscanInit(dst, src View, op Op) (Request, error) {
	return c.startExscan(core.Persistent, dst, src, op)
}

func (c *Comm) startExscan(start core.Start, dst, src View, op Op) (Request, error) {
	if err := firstError(&dst, &src); err != nil {
		return Request{}, c.callError(start.Name(perf.Iexscan), err)
	}
	return request(c.core().IexscanData(start, &dst.data, &src.data, coreOp(op)))
}
