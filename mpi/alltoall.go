package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Alltoall sends part i of src to rank i, and stores the part from rank i as part i of dst. dst and src have the same
// length and may be the same slice. MPI-5.0 §6.8.
func Alltoall[T any](c *Comm, dst, src []T) error {
	return callSlices(c, &core.Collective{Kind: perf.Alltoall}, dst, src)
}

// Ialltoall starts an Alltoall. MPI-5.0 §6.12.6.
func Ialltoall[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Alltoall}, dst, src)
}

// AlltoallInit creates a persistent Alltoall. MPI-5.0 §6.13.6.
func AlltoallInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Alltoall}, dst, src)
}

// Alltoall is [Alltoall] of views. Both have a part for each rank. MPI-5.0 §6.8.
func (c *Comm) Alltoall(dst, src View) error {
	return c.callViews(&core.Collective{Kind: perf.Alltoall}, &dst, &src)
}

// Ialltoall starts a [Comm.Alltoall]. MPI-5.0 §6.12.6.
func (c *Comm) Ialltoall(dst, src View) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Alltoall}, &dst, &src)
}

// AlltoallInit creates a persistent [Comm.Alltoall]. MPI-5.0 §6.13.6.
func (c *Comm) AlltoallInit(dst, src View) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Alltoall}, &dst, &src)
}

// Alltoallv sends scounts[i] elements of src at sdispls[i] to rank i, and receives rcounts[i] elements from rank i
// into dst at rdispls[i]. Without displacements the parts are consecutive. dst and src may be the same slice; rcounts
// and rdispls then describe both. MPI-5.0 §6.8.
func Alltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	return callSlices(c, bothBlocks(perf.Alltoallv, rcounts, rdispls, scounts, sdispls), dst, src)
}

// Ialltoallv starts an Alltoallv. MPI-5.0 §6.12.6.
func Ialltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (Request, error) {
	x := bothBlocks(perf.Alltoallv, rcounts, rdispls, scounts, sdispls)
	return startSlices(c, core.Immediate, x, dst, src)
}

// AlltoallvInit creates a persistent Alltoallv. MPI-5.0 §6.13.6.
func AlltoallvInit[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (Request, error) {
	x := bothBlocks(perf.Alltoallv, rcounts, rdispls, scounts, sdispls)
	return startSlices(c, core.Persistent, x, dst, src)
}

// Alltoallw sends src[i] to rank i, and receives into dst[i] from rank i. The views may differ in everything; their lengths are
// those of the messages. MPI-5.0 §6.8.
func (c *Comm) Alltoallw(dst, src []View) error {
	return c.callLists(&core.Collective{Kind: perf.Alltoallw}, dst, src, &View{})
}

// Ialltoallw starts a [Comm.Alltoallw]. MPI-5.0 §6.12.6.
func (c *Comm) Ialltoallw(dst, src []View) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.Alltoallw}, dst, src, &View{})
}

// AlltoallwInit creates a persistent [Comm.Alltoallw]. MPI-5.0 §6.13.6.
func (c *Comm) AlltoallwInit(dst, src []View) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.Alltoallw}, dst, src, &View{})
}
