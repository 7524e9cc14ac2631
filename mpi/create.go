package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Compare returns Ident for the same communicator, Congruent if only the contexts differ, Similar if the order of the ranks
// differs as well, and otherwise Unequal. Intercommunicators are compared by both groups; an intercommunicator and an
// intracommunicator are Unequal. It is local, and fails with ErrComm if one is nil or freed. MPI-5.0 §7.4.1.
func (c *Comm) Compare(d *Comm) (Comparison, error) {
	x, err := core.Compare(c.core(), d.core())
	return Comparison(x), public(err)
}

// Create creates a communicator of the processes of a group, in their order. It is collective over c. All processes of the group
// give the same group, and other processes a group without these, such as the empty one: so one call can create several
// communicators. The result is nil for a process that is not in the group it gives. Attributes and hints are not copied.
//
// The processes of a group must be in c. If they are not, or if they give different groups, Create fails with ErrGroup there, and
// with ErrOther at the other ranks. On an intercommunicator the result is an intercommunicator: every process of a group gives
// those of its own group that belong to it, and the result is nil if one side has none. MPI-5.0 §7.4.2.
func (c *Comm) Create(g *Group) (*Comm, error) { return comm(core.Create(c.core(), g.core())) }

// CreateGroup is Create for the processes of the group only: other processes need not call it. For these it is local, and the
// result is nil. The tag, from 0 to TagUB, distinguishes concurrent calls of several goroutines for the same group; messages with
// the same tag are not affected. It fails with ErrProcFailed if a process of the group is lost or has left the job, and with
// ErrComm on an intercommunicator. MPI-5.0 §7.4.2.
func (c *Comm) CreateGroup(g *Group, tag int) (*Comm, error) {
	return comm(core.CreateGroup(c.core(), g.core(), tag))
}
