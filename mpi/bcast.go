package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Bcast copies the root's x to x of every rank. All ranks must give the same length. MPI-5.0 §6.4.
func Bcast[T any](c *Comm, x []T, root int) error {
	return callSlices(c, &core.Collective{Kind: perf.Bcast, Root: root}, x, nil)
}

// Ibcast starts a Bcast. MPI-5.0 §6.12.2.
func Ibcast[T any](c *Comm, x []T, root int) (Request, error) {
	return startSlices(c, core.Immediate, &core.Collective{Kind: perf.Bcast, Root: root}, x, nil)
}

// BcastInit creates a persistent Bcast. MPI-5.0 §6.13.2.
func BcastInit[T any](c *Comm, x []T, root int) (Request, error) {
	return startSlices(c, core.Persistent, &core.Collective{Kind: perf.Bcast, Root: root}, x, nil)
}

// Bcast is [Bcast] of a view. MPI-5.0 §6.4.
func (c *Comm) Bcast(v View, root int) error {
	return c.callViews(&core.Collective{Kind: perf.Bcast, Root: root}, &v, &View{})
}

// Ibcast starts a [Comm.Bcast]. MPI-5.0 §6.12.2.
func (c *Comm) Ibcast(v View, root int) (Request, error) {
	return c.startViews(core.Immediate, &core.Collective{Kind: perf.Bcast, Root: root}, &v, &View{})
}

// BcastInit creates a persistent [Comm.Bcast]. MPI-5.0 §6.13.2.
func (c *Comm) BcastInit(v View, root int) (Request, error) {
	return c.startViews(core.Persistent, &core.Collective{Kind: perf.Bcast, Root: root}, &v, &View{})
}
