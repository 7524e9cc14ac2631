package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// IntercommFromGroups creates an intercommunicator of two groups that have no process in common. It is collective
// over both: each process gives its own group first; groups and tag are the same at all processes. It takes no
// leaders, because every process knows both groups. Otherwise it is like CommFromGroup. MPI-5.0 §7.6.2.
//
// In an intercommunicator the ranks of messages are those of the remote group. It can be duplicated and freed, and
// supports Barrier. Other collectives fail with ErrComm; Merge creates an intracommunicator of both groups.
func IntercommFromGroups(local, remote *Group, tag string, info *Info) (*Comm, error) {
	return comm(core.IntercommFromGroups(local.core(), remote.core(), tag, info.core()))
}

// Remote reports whether the communicator is an intercommunicator. MPI-5.0 §7.6.1, as MPI_Comm_test_inter.
func (c *Comm) Remote() bool { return c.core().Remote() }

// RemoteSize returns the number of processes of an intercommunicator's remote group; 0 for an intracommunicator.
// MPI-5.0 §7.6.1.
func (c *Comm) RemoteSize() int { return c.core().RemoteSize() }

// RemoteGroup returns an intercommunicator's remote group; the empty group for an intracommunicator. MPI-5.0 §7.6.1.
func (c *Comm) RemoteGroup() *Group { return (*Group)(c.core().RemoteGroup()) }

// Merge creates an intracommunicator of both groups of an intercommunicator: first the processes of the group that
// gives high as false, then the others. If both groups give the same value, the order is arbitrary. All processes of
// a group must give the same value, otherwise all ranks fail with ErrArg. It is collective. Attributes are not
// copied. MPI-5.0 §7.6.2.
func (c *Comm) Merge(high bool) (*Comm, error) { return comm(c.core().Merge(high)) }
