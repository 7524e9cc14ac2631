package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// IntercommFromGroups creates an intercommunicator of two groups that have no process in common. It is collective
// over both: each process gives its own group first; groups and tag are the same at all processes. It takes no
// leaders, because every process knows both groups. Otherwise it is like CommFromGroup. MPI-5.0 §7.6.2.
//
// In an intercommunicator the ranks of messages are those of the remote group. It can be duplicated and freed, and
// supports the collectives except Scan and Exscan, which fail with ErrComm. Data goes from each group to the other. In a
// collective with a root it goes from the root to the other group, or back: the root gives Root, the others of its group give
// ProcNull, and the other group gives the rank of the root. None is in place. After a failure other than wrong arguments no
// collective succeeds any more. Merge creates an intracommunicator of both groups. MPI-5.0 §6.2.3.
func IntercommFromGroups(local, remote *Group, tag string, info *Info) (*Comm, error) {
	return comm(core.IntercommFromGroups(local.core(), remote.core(), tag, info.core()))
}

// CreateIntercomm creates an intercommunicator of the processes of c, which is an intracommunicator, and those of another one. It
// is collective over both. Each has a leader, which is a rank of it; the leaders know each other by a peer communicator: peer,
// remoteLeader, a rank of peer, and the tag, which distinguishes concurrent calls, are used at the leader only. Messages with the
// same tag are not affected. Attributes and hints are not copied.
//
// It fails with ErrRank if a leader is not a rank or if the ranks of c give different ones, with ErrGroup if the groups have
// processes in common, and with ErrProcFailed if a process is lost. An error at one rank is an error at all ranks of both groups.
// The exception is a leader that gives a wrong peer, remoteLeader or tag: its group fails, and the other group waits until that
// leader leaves the job. MPI-5.0 §7.6.2.
func (c *Comm) CreateIntercomm(localLeader int, peer *Comm, remoteLeader, tag int) (*Comm, error) {
	return comm(core.CreateIntercomm(c.core(), localLeader, peer.core(), remoteLeader, tag))
}

// Remote reports whether the communicator is an intercommunicator. MPI-5.0 §7.6.1, as MPI_Comm_test_inter.
func (c *Comm) Remote() bool { return c.core().Remote() }

// RemoteSize returns the number of processes of an intercommunicator's remote group; 0 for an intracommunicator.
// MPI-5.0 §7.6.1.
func (c *Comm) RemoteSize() int { return c.core().RemoteSize() }

// RemoteGroup returns an intercommunicator's remote group; the empty group for an intracommunicator; nil if c is nil.
// MPI-5.0 §7.6.1.
func (c *Comm) RemoteGroup() *Group { return (*Group)(c.core().RemoteGroup()) }

// Merge creates an intracommunicator of both groups of an intercommunicator: first the processes of the group that
// gives high as false, then the others. If both groups give the same value, the order is arbitrary. All processes of
// a group must give the same value, otherwise all ranks fail with ErrArg. It is collective. Attributes are not
// copied. MPI-5.0 §7.6.2.
func (c *Comm) Merge(high bool) (*Comm, error) { return comm(core.Merge(c.core(), high)) }
