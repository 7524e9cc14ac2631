package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// SplitType is the criterion by which [Comm.SplitType] divides a communicator. Undefined is also allowed.
// MPI-5.0 §7.4.2.
type SplitType int32

// The split types. MPI-5.0 §7.4.2.
const (
	// TypeShared groups the ranks of a node. MPI-5.0 §7.4.2.
	TypeShared SplitType = core.TypeShared
	// TypeHWUnguided groups by the largest type of hardware resource that divides the communicator. MPI-5.0 §7.4.2.
	TypeHWUnguided SplitType = core.TypeHWUnguided
	// TypeHWGuided groups by the type of hardware resource in the info. MPI-5.0 §7.4.2.
	TypeHWGuided SplitType = core.TypeHWGuided
	// TypeResourceGuided groups by the type of hardware resource or the process set in the info. MPI-5.0 §7.4.2.
	TypeResourceGuided SplitType = core.TypeResourceGuided
)

// SplitType creates communicators of ranks that share a resource, each ordered by key and then by rank in c. It is
// collective. The result is nil for ranks that do not have the resource or give Undefined. No rank is in two of the
// communicators.
//
// With TypeHWGuided and TypeResourceGuided the key mpi_hw_resource_type of info names the resource: any key that
// [Process.GetHWResourceInfo] returns, as it is spelled there, or mpi_shared_memory, which means the same as
// TypeShared. Ranks that are restricted to the same instance now get a common communicator. Other ranks get nil, and
// so do ranks without the key or with an unknown value. TypeResourceGuided also accepts mpi_pset_name, the name of a
// process set. With both keys, ranks must have both in common. Ranks may give different values: each joins those with
// its own.
//
// The info may also contain hints for the new communicator, as for [Comm.SetInfo].
//
// TypeHWUnguided selects the largest type of hwloc by which every communicator has fewer ranks than c, and stores it
// in info as mpi_hw_resource_type. All ranks get nil if there is no such type. MPI-5.0 §7.4.2.
func (c *Comm) SplitType(by SplitType, key int, info *Info) (*Comm, error) {
	return comm(core.SplitByType(c.core(), core.SplitType(by), key, info.core()))
}
