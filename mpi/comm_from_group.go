package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// CommFromGroup creates a communicator of the processes of a group, in their order, without an existing communicator.
// It is collective over the group: all processes give the group in the same order and the same tag. The communicator
// belongs to the session of the group, or to the World Model. For an empty group it is nil.
//
// The tag distinguishes concurrent calls of several goroutines for the same processes. It may be used again later;
// calls with the same tag for the same processes run one after the other. It has at most MaxStringTag bytes and no
// NUL.
//
// CommFromGroup fails with ErrGroup if the group lacks this process, with ErrSession if its session has been closed,
// and with ErrProcFailed if one of the processes is lost or has left the job. The hints of info are those of the new
// communicator, as in SetInfo. MPI-5.0 §7.4.2.
func CommFromGroup(g *Group, tag string, info *Info) (*Comm, error) {
	return comm(core.CommFromGroup(g.core(), tag, info.core()))
}
