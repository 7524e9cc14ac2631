package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Immediate and persistent collectives of views. If a view must be packed, the start packs the view that is sent, and the view
// that is received is unpacked before the request completes.

// Ibcast starts a [Comm.Bcast]. MPI-5.0 §6.12.2.
func (c *Comm) Ibcast(v View, root int) (Request, error) {
	return c.startBcast(core.Immediate, v, root)
}

// BcastInit creates a persistent [Comm.Bcast]. MPI-5.0 §6.13.2.
func (c *Comm) BcastInit(v View, root int) (Request, error) {
	return c.startBcast(core.Persistent, v, root)
}

// Igather starts a [Comm.Gather]. MPI-5.0 §6.12.3.
func (c *Comm) Igather(dst, src View, root int) (Request, error) {
	return c.startGather(core.Immediate, dst, src, root)
}

// GatherInit creates a persistent [Comm.Gather]. MPI-5.0 §6.13.3.
func (c *Comm) GatherInit(dst, src View, root int) (Request, error) {
	return c.startGather(core.Persistent, dst, src, root)
}

// Igatherv starts a [Comm.Gatherv]. MPI-5.0 §6.12.3.
func (c *Comm) Igatherv(dst []View, src View, root int) (Request, error) {
	return c.startGatherv(core.Immediate, dst, src, root)
}

// GathervInit creates a persistent [Comm.Gatherv]. MPI-5.0 §6.13.3.
func (c *Comm) GathervInit(dst []View, src View, root int) (Request, error) {
	return c.startGatherv(core.Persistent, dst, src, root)
}

// Iscatter starts a [Comm.Scatter]. MPI-5.0 §6.12.4.
func (c *Comm) Iscatter(dst, src View, root int) (Request, error) {
	return c.startScatter(core.Immediate, dst, src, root)
}

// ScatterInit creates a persistent [Comm.Scatter]. MPI-5.0 §6.13.4.
func (c *Comm) ScatterInit(dst, src View, root int) (Request, error) {
	return c.startScatter(core.Persistent, dst, src, root)
}

// Iscatterv starts a [Comm.Scatterv]. MPI-5.0 §6.12.4.
func (c *Comm) Iscatterv(dst View, src []View, root int) (Request, error) {
	return c.startScatterv(core.Immediate, dst, src, root)
}

// ScattervInit creates a persistent [Comm.Scatterv]. MPI-5.0 §6.13.4.
func (c *Comm) ScattervInit(dst View, src []View, root int) (Request, error) {
	return c.startScatterv(core.Persistent, dst, src, root)
}

// Iallgather starts a [Comm.Allgather]. MPI-5.0 §6.12.5.
func (c *Comm) Iallgather(dst, src View) (Request, error) {
	return c.startAllgather(core.Immediate, dst, src)
}

// AllgatherInit creates a persistent [Comm.Allgather]. MPI-5.0 §6.13.5.
func (c *Comm) AllgatherInit(dst, src View) (Request, error) {
	return c.startAllgather(core.Persistent, dst, src)
}

// Iallgatherv starts a [Comm.Allgatherv]. MPI-5.0 §6.12.5.
func (c *Comm) Iallgatherv(dst []View, src View) (Request, error) {
	return c.startAllgatherv(core.Immediate, dst, src)
}

// AllgathervInit creates a persistent [Comm.Allgatherv]. MPI-5.0 §6.13.5.
func (c *Comm) AllgathervInit(dst []View, src View) (Request, error) {
	return c.startAllgatherv(core.Persistent, dst, src)
}

// Ialltoall starts a [Comm.Alltoall]. MPI-5.0 §6.12.6.
func (c *Comm) Ialltoall(dst, src View) (Request, error) {
	return c.startAlltoall(core.Immediate, dst, src)
}

// AlltoallInit creates a persistent [Comm.Alltoall]. MPI-5.0 §6.13.6.
func (c *Comm) AlltoallInit(dst, src View) (Request, error) {
	return c.startAlltoall(core.Persistent, dst, src)
}

// Ialltoallw starts a [Comm.Alltoallw]. MPI-5.0 §6.12.6.
func (c *Comm) Ialltoallw(dst, src []View) (Request, error) {
	return c.startAlltoallw(perf.Ialltoallw, core.Immediate, dst, src)
}

// AlltoallwInit creates a persistent [Comm.Alltoallw]. MPI-5.0 §6.13.6.
func (c *Comm) AlltoallwInit(dst, src []View) (Request, error) {
	return c.startAlltoallw(perf.Ialltoallw, core.Persistent, dst, src)
}
