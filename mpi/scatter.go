package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Scatter copies part i of root's src to dst of rank i. Other ranks do not use src, which may be nil. In place at
// root: dst is src, or root's part of src. MPI-5.0 §6.6.
func Scatter[T any](c *Comm, dst, src []T, root int) error {
	return callSlices(c, &core.Collective{Kind: perf.Scatter, Root: root}, dst, src)
}

// Iscatter starts a Scatter. MPI-5.0 §6.12.4.
func Iscatter[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Scatter, Root: root}, dst, src)
}

// ScatterInit creates a persistent Scatter. MPI-5.0 §6.13.4.
func ScatterInit[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Scatter, Root: root}, dst, src)
}

// Scatter is [Scatter] of views. src has the data of all ranks; ranks other than root give the zero View. MPI-5.0 §6.6.
func (c *Comm) Scatter(dst, src View, root int) error {
	return c.callViews(&core.Collective{Kind: perf.Scatter, Root: root}, &dst, &src)
}

// Iscatter starts a [Comm.Scatter]. MPI-5.0 §6.12.4.
func (c *Comm) Iscatter(dst, src View, root int) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Scatter, Root: root}, &dst, &src)
}

// ScatterInit creates a persistent [Comm.Scatter]. MPI-5.0 §6.13.4.
func (c *Comm) ScatterInit(dst, src View, root int) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Scatter, Root: root}, &dst, &src)
}

// Scatterv copies a part of root's src to dst of every rank: counts[i] elements at displs[i] to rank i, or
// consecutive parts if displs is nil. Only root uses src, counts and displs. In place at root as in Scatter.
// MPI-5.0 §6.6.
func Scatterv[T any](c *Comm, dst []T, src []T, counts, displs []int, root int) error {
	return callSlices(c, &core.Collective{Kind: perf.Scatterv, From: core.Blocks(counts, displs), Root: root}, dst, src)
}

// Iscatterv starts a Scatterv. MPI-5.0 §6.12.4.
func Iscatterv[T any](c *Comm, dst, src []T, counts, displs []int, root int) (Request, error) {
	x := &core.Collective{Kind: perf.Scatterv, From: core.Blocks(counts, displs), Root: root}
	return startSlices(c, core.Immediate, x, dst, src)
}

// ScattervInit creates a persistent Scatterv. MPI-5.0 §6.13.4.
func ScattervInit[T any](c *Comm, dst, src []T, counts, displs []int, root int) (Request, error) {
	x := &core.Collective{Kind: perf.Scatterv, From: core.Blocks(counts, displs), Root: root}
	return startSlices(c, core.Persistent, x, dst, src)
}

// Scatterv is [Scatterv] of views: src has one for each rank at root, and is nil at others. MPI-5.0 §6.6.
func (c *Comm) Scatterv(dst View, src []View, root int) error {
	return c.callLists(&core.Collective{Kind: perf.Scatterv, Root: root}, nil, src, &dst)
}

// Iscatterv starts a [Comm.Scatterv]. MPI-5.0 §6.12.4.
func (c *Comm) Iscatterv(dst View, src []View, root int) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.Scatterv, Root: root}, nil, src, &dst)
}

// ScattervInit creates a persistent [Comm.Scatterv]. MPI-5.0 §6.13.4.
func (c *Comm) ScattervInit(dst View, src []View, root int) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.Scatterv, Root: root}, nil, src, &dst)
}
