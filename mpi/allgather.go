package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Allgather collects src of all ranks into dst of every rank, in the order of ranks. In place: src is dst, or this
// rank's part of dst. MPI-5.0 §6.7.
func Allgather[T any](c *Comm, dst, src []T) error {
	return callSlices(c, &core.Collective{Kind: perf.Allgather}, dst, src)
}

// Iallgather starts an Allgather. MPI-5.0 §6.12.5.
func Iallgather[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Allgather}, dst, src)
}

// AllgatherInit creates a persistent Allgather. MPI-5.0 §6.13.5.
func AllgatherInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Allgather}, dst, src)
}

// Allgather is [Allgather] of views. dst has the data of all ranks. MPI-5.0 §6.7.
func (c *Comm) Allgather(dst, src View) error {
	return c.callViews(&core.Collective{Kind: perf.Allgather}, &dst, &src)
}

// Iallgather starts a [Comm.Allgather]. MPI-5.0 §6.12.5.
func (c *Comm) Iallgather(dst, src View) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Allgather}, &dst, &src)
}

// AllgatherInit creates a persistent [Comm.Allgather]. MPI-5.0 §6.13.5.
func (c *Comm) AllgatherInit(dst, src View) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Allgather}, &dst, &src)
}

// Allgatherv collects src of all ranks into dst of every rank: counts[i] elements of rank i at displs[i], or
// consecutively if displs is nil. In place as in Allgather. MPI-5.0 §6.7.
func Allgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) error {
	return callSlices(c, &core.Collective{Kind: perf.Allgatherv, To: core.Blocks(counts, displs)}, dst, src)
}

// Iallgatherv starts an Allgatherv. MPI-5.0 §6.12.5.
func Iallgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Allgatherv, To: core.Blocks(counts, displs)}, dst, src)
}

// AllgathervInit creates a persistent Allgatherv. MPI-5.0 §6.13.5.
func AllgathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Allgatherv, To: core.Blocks(counts, displs)}, dst, src)
}

// Allgatherv is [Allgatherv] of views: dst has one for each rank. MPI-5.0 §6.7.
func (c *Comm) Allgatherv(dst []View, src View) error {
	return c.callLists(&core.Collective{Kind: perf.Allgatherv}, dst, nil, &src)
}

// Iallgatherv starts a [Comm.Allgatherv]. MPI-5.0 §6.12.5.
func (c *Comm) Iallgatherv(dst []View, src View) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.Allgatherv}, dst, nil, &src)
}

// AllgathervInit creates a persistent [Comm.Allgatherv]. MPI-5.0 §6.13.5.
func (c *Comm) AllgathervInit(dst []View, src View) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.Allgatherv}, dst, nil, &src)
}
