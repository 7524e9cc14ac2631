package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// MaxObjectName is the maximum length of the name of a communicator or a datatype in bytes. C's constant also counts the final
// NUL. MPI-5.0 §7.8.
const MaxObjectName = core.MaxObjectName

// SetName gives the communicator a name at this process. Longer names are cut to MaxObjectName bytes. The name is shown where the
// communicator's calls are: by `ibrun hang`, in traces and in reports. A process can show 63 different names; communicators with
// the same name count once. It is local, and costs calls nothing. MPI-5.0 §7.8.
func (c *Comm) SetName(name string) error { return public(c.core().SetName(name)) }

// Name returns the name. It is MPI_COMM_WORLD for World, MPI_COMM_SELF for Self, and empty for others that have not been named:
// constructors do not copy names. It is local. MPI-5.0 §7.8.
func (c *Comm) Name() (string, error) { return public2(c.core().Name()) }
