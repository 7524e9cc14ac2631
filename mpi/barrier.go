package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Barrier blocks until all ranks have called it; on an intercommunicator, the ranks of both groups. MPI-5.0 §6.3.
func (c *Comm) Barrier() error {
	return public(c.core().Collectives().Call(&core.Collective{Kind: perf.Barrier}))
}

// Ibarrier starts a Barrier. The request completes when all ranks have called Ibarrier. MPI-5.0 §6.12.1.
func (c *Comm) Ibarrier() (Request, error) {
	return request(c.core().Collectives().Start(core.Immediate, &core.Collective{Kind: perf.Barrier}))
}

// BarrierInit creates a persistent Barrier. MPI-5.0 §6.13.1.
func (c *Comm) BarrierInit() (Request, error) {
	return request(c.core().Collectives().Start(core.Persistent, &core.Collective{Kind: perf.Barrier}))
}
