package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Scan combines src of rank 0 up to this rank into dst. The destination comes first. dst and src may be the same slice.
// MPI-5.0 §6.11.1.
func Scan[T any](c *Comm, dst, src []T, op Op) error {
	return callValues(c, &core.Collective{Kind: perf.Scan, Op: coreOp(op)}, dst, src)
}

// Iscan starts a Scan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.11.
func Iscan[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Immediate, &core.Collective{Kind: perf.Scan, Op: coreOp(op)}, dst, src)
}

// ScanInit creates a persistent Scan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.11.
func ScanInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Persistent, &core.Collective{Kind: perf.Scan, Op: coreOp(op)}, dst, src)
}

// Scan is [Scan] of views, as [Comm.Reduce].
// MPI-5.0 §6.11.1.
func (c *Comm) Scan(dst, src View, op Op) error {
	return c.callViews(&core.Collective{Kind: perf.Scan, Op: coreOp(op)}, &dst, &src)
}

// Iscan starts a [Comm.Scan]. MPI-5.0 §6.12.11.
func (c *Comm) Iscan(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Scan, Op: coreOp(op)}, &dst, &src)
}

// ScanInit creates a persistent [Comm.Scan]. MPI-5.0 §6.13.11.
func (c *Comm) ScanInit(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Scan, Op: coreOp(op)}, &dst, &src)
}

// Exscan combines src of the ranks below this one into dst. The destination comes first. At rank 0 dst is not changed. dst
// and src may be the same slice. MPI-5.0 §6.11.2.
func Exscan[T any](c *Comm, dst, src []T, op Op) error {
	return callValues(c, &core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, dst, src)
}

// Iexscan starts an Exscan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.12.12.
func Iexscan[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Immediate, &core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, dst, src)
}

// ExscanInit creates a persistent Exscan. Elements may be structs, as in [Reduce]. MPI-5.0 §6.13.12.
func ExscanInit[T any](c *Comm, dst, src []T, op Op) (Request, error) {
	return startValues(c, core.Persistent, &core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, dst, src)
}

// Exscan is [Exscan] of views, as [Comm.Reduce]. At rank 0 dst is not changed.
// MPI-5.0 §6.11.2.
func (c *Comm) Exscan(dst, src View, op Op) error {
	return c.callViews(&core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, &dst, &src)
}

// Iexscan starts a [Comm.Exscan]. MPI-5.0 §6.12.12.
func (c *Comm) Iexscan(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, &dst, &src)
}

// ExscanInit creates a persistent [Comm.Exscan]. MPI-5.0 §6.13.12.
func (c *Comm) ExscanInit(dst, src View, op Op) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Exscan, Op: coreOp(op)}, &dst, &src)
}
