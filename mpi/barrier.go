package mpi

// Barrier blocks until all ranks have called it; on an intercommunicator, the ranks of both groups. MPI-5.0 §6.3.
func (c *Comm) Barrier() error { return public(c.core().Barrier()) }
