package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Split creates a communicator for each color, of the ranks that give it, ordered by key and then by rank in c. The
// result is nil for ranks that give Undefined. Other colors must not be negative. It is collective. On an intercommunicator the
// results are intercommunicators, of the ranks of both groups that give the color; nil if only one group has any. MPI-5.0 §7.4.2.
func (c *Comm) Split(color, key int) (*Comm, error) { return comm(core.Split(c.core(), color, key)) }
