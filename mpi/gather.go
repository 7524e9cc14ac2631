package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Gather collects src of all ranks into dst at root, in the order of ranks. Other ranks do not use dst, which may be
// nil. In place at root: src is dst, or root's part of dst. MPI-5.0 §6.5.
func Gather[T any](c *Comm, dst, src []T, root int) error {
	return callSlices(c, &core.Collective{Kind: perf.Gather, Root: root}, dst, src)
}

// Igather starts a Gather. MPI-5.0 §6.12.3.
func Igather[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Gather, Root: root}, dst, src)
}

// GatherInit creates a persistent Gather. MPI-5.0 §6.13.3.
func GatherInit[T any](c *Comm, dst, src []T, root int) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Gather, Root: root}, dst, src)
}

// Gather is [Gather] of views. dst has the data of all ranks; ranks other than root give the zero View. MPI-5.0 §6.5.
func (c *Comm) Gather(dst, src View, root int) error {
	return c.callViews(&core.Collective{Kind: perf.Gather, Root: root}, &dst, &src)
}

// Igather starts a [Comm.Gather]. MPI-5.0 §6.12.3.
func (c *Comm) Igather(dst, src View, root int) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Gather, Root: root}, &dst, &src)
}

// GatherInit creates a persistent [Comm.Gather]. MPI-5.0 §6.13.3.
func (c *Comm) GatherInit(dst, src View, root int) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Gather, Root: root}, &dst, &src)
}

// Gatherv collects src of all ranks into dst at root: counts[i] elements of rank i at displs[i], or consecutively if
// displs is nil. Only root uses dst, counts and displs. In place at root as in Gather. MPI-5.0 §6.5.
func Gatherv[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) error {
	return callSlices(c, &core.Collective{Kind: perf.Gatherv, To: core.Blocks(counts, displs), Root: root}, dst, src)
}

// Igatherv starts a Gatherv. MPI-5.0 §6.12.3.
func Igatherv[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) (Request, error) {
	x := &core.Collective{Kind: perf.Gatherv, To: core.Blocks(counts, displs), Root: root}
	return startSlices(c, core.Immediate, x, dst, src)
}

// GathervInit creates a persistent Gatherv. MPI-5.0 §6.13.3.
func GathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T, root int) (Request, error) {
	x := &core.Collective{Kind: perf.Gatherv, To: core.Blocks(counts, displs), Root: root}
	return startSlices(c, core.Persistent, x, dst, src)
}

// Gatherv is [Gatherv] of views: dst has one for each rank at root, and is nil at others. MPI-5.0 §6.5.
func (c *Comm) Gatherv(dst []View, src View, root int) error {
	return c.callLists(&core.Collective{Kind: perf.Gatherv, Root: root}, dst, nil, &src)
}

// Igatherv starts a [Comm.Gatherv]. MPI-5.0 §6.12.3.
func (c *Comm) Igatherv(dst []View, src View, root int) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.Gatherv, Root: root}, dst, nil, &src)
}

// GathervInit creates a persistent [Comm.Gatherv]. MPI-5.0 §6.13.3.
func (c *Comm) GathervInit(dst []View, src View, root int) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.Gatherv, Root: root}, dst, nil, &src)
}
