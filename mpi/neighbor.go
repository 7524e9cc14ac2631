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
	return callSlices(c, &core.Collective{Kind: perf.NeighborAllgather}, dst, src)
}

// IneighborAllgather starts a NeighborAllgather. MPI-5.0 §8.7.1.
func IneighborAllgather[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.NeighborAllgather}, dst, src)
}

// NeighborAllgatherInit creates a persistent NeighborAllgather. MPI-5.0 §8.8.1.
func NeighborAllgatherInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.NeighborAllgather}, dst, src)
}

// NeighborAllgather is [NeighborAllgather] of views. dst has the data of all sources. MPI-5.0 §8.6.1.
func (c *Comm) NeighborAllgather(dst, src View) error {
	return c.callViews(&core.Collective{Kind: perf.NeighborAllgather}, &dst, &src)
}

// IneighborAllgather starts a [Comm.NeighborAllgather]. MPI-5.0 §8.7.1.
func (c *Comm) IneighborAllgather(dst, src View) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.NeighborAllgather}, &dst, &src)
}

// NeighborAllgatherInit creates a persistent [Comm.NeighborAllgather]. MPI-5.0 §8.8.1.
func (c *Comm) NeighborAllgatherInit(dst, src View) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.NeighborAllgather}, &dst, &src)
}

// NeighborAllgatherv is NeighborAllgather with blocks of different lengths: counts[i] elements of source i at displs[i],
// or consecutively if displs is nil. MPI-5.0 §8.6.1.
func NeighborAllgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) error {
	return callSlices(c, &core.Collective{Kind: perf.NeighborAllgatherv, To: core.Blocks(counts, displs)}, dst, src)
}

// IneighborAllgatherv starts a NeighborAllgatherv. MPI-5.0 §8.7.1.
func IneighborAllgatherv[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	x := &core.Collective{Kind: perf.NeighborAllgatherv, To: core.Blocks(counts, displs)}
	return startSlices(c, core.Immediate, x, dst, src)
}

// NeighborAllgathervInit creates a persistent NeighborAllgatherv. MPI-5.0 §8.8.1.
func NeighborAllgathervInit[T any](c *Comm, dst []T, counts, displs []int, src []T) (Request, error) {
	x := &core.Collective{Kind: perf.NeighborAllgatherv, To: core.Blocks(counts, displs)}
	return startSlices(c, core.Persistent, x, dst, src)
}

// NeighborAllgatherv is [NeighborAllgatherv] of views: dst has one for each source. MPI-5.0 §8.6.1.
func (c *Comm) NeighborAllgatherv(dst []View, src View) error {
	return c.callLists(&core.Collective{Kind: perf.NeighborAllgatherv}, dst, nil, &src)
}

// IneighborAllgatherv starts a [Comm.NeighborAllgatherv]. MPI-5.0 §8.7.1.
func (c *Comm) IneighborAllgatherv(dst []View, src View) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.NeighborAllgatherv}, dst, nil, &src)
}

// NeighborAllgathervInit creates a persistent [Comm.NeighborAllgatherv]. MPI-5.0 §8.8.1.
func (c *Comm) NeighborAllgathervInit(dst []View, src View) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.NeighborAllgatherv}, dst, nil, &src)
}

// NeighborAlltoall sends block i of src to destination i, and stores the block from source i as block i of dst. MPI-5.0 §8.6.2.
func NeighborAlltoall[T any](c *Comm, dst, src []T) error {
	return callSlices(c, &core.Collective{Kind: perf.NeighborAlltoall}, dst, src)
}

// IneighborAlltoall starts a NeighborAlltoall. MPI-5.0 §8.7.2.
func IneighborAlltoall[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.NeighborAlltoall}, dst, src)
}

// NeighborAlltoallInit creates a persistent NeighborAlltoall. MPI-5.0 §8.8.2.
func NeighborAlltoallInit[T any](c *Comm, dst, src []T) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.NeighborAlltoall}, dst, src)
}

// NeighborAlltoall is [NeighborAlltoall] of views. They have a part for each source and each destination. MPI-5.0 §8.6.2.
func (c *Comm) NeighborAlltoall(dst, src View) error {
	return c.callViews(&core.Collective{Kind: perf.NeighborAlltoall}, &dst, &src)
}

// IneighborAlltoall starts a [Comm.NeighborAlltoall]. MPI-5.0 §8.7.2.
func (c *Comm) IneighborAlltoall(dst, src View) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.NeighborAlltoall}, &dst, &src)
}

// NeighborAlltoallInit creates a persistent [Comm.NeighborAlltoall]. MPI-5.0 §8.8.2.
func (c *Comm) NeighborAlltoallInit(dst, src View) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.NeighborAlltoall}, &dst, &src)
}

// NeighborAlltoallv is NeighborAlltoall with blocks of different lengths, as in [Alltoallv]. MPI-5.0 §8.6.2.
func NeighborAlltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	return callSlices(c, bothBlocks(perf.NeighborAlltoallv, rcounts, rdispls, scounts, sdispls), dst, src)
}

// IneighborAlltoallv starts a NeighborAlltoallv. MPI-5.0 §8.7.2.
func IneighborAlltoallv[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	x := bothBlocks(perf.NeighborAlltoallv, rcounts, rdispls, scounts, sdispls)
	return startSlices(c, core.Immediate, x, dst, src)
}

// NeighborAlltoallvInit creates a persistent NeighborAlltoallv. MPI-5.0 §8.8.2.
func NeighborAlltoallvInit[T any](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	Request, error,
) {
	x := bothBlocks(perf.NeighborAlltoallv, rcounts, rdispls, scounts, sdispls)
	return startSlices(c, core.Persistent, x, dst, src)
}

// NeighborAlltoallw sends src[i] to destination i, and receives into dst[i] from source i. The views may differ in everything.
// MPI-5.0 §8.6.2.
func (c *Comm) NeighborAlltoallw(dst, src []View) error {
	return c.callLists(&core.Collective{Kind: perf.NeighborAlltoallw}, dst, src, &View{})
}

// IneighborAlltoallw starts a NeighborAlltoallw. MPI-5.0 §8.7.2.
func (c *Comm) IneighborAlltoallw(dst, src []View) (Request, error) {
	return c.startLists(core.Immediate, &core.Collective{Kind: perf.NeighborAlltoallw}, dst, src, &View{})
}

// NeighborAlltoallwInit creates a persistent NeighborAlltoallw. MPI-5.0 §8.8.2.
func (c *Comm) NeighborAlltoallwInit(dst, src []View) (Request, error) {
	return c.startLists(core.Persistent, &core.Collective{Kind: perf.NeighborAlltoallw}, dst, src, &View{})
}
