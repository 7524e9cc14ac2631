package mpi

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/perf"
)

// IntercommFromGroups makes an intercommunicator of two groups that have no process in common. It is collective over both:
// each process gives its own group first; groups and tag are the same at all. No leaders are named, as every process knows
// both groups. Everything else is as for CommFromGroup. MPI-5.0 §7.6.2.
//
// In an intercommunicator ranks of messages are those of the other group. It can be duplicated and freed, and has Barrier;
// other collectives are ErrComm: Merge makes an intracommunicator of both groups.
func IntercommFromGroups(local, remote *Group, tag string, _ *Info) (*Comm, error) {
	const call = perf.IntercommFromGroups
	op := call.String()
	if err := local.checkCreate(op, tag); err != nil {
		return nil, err
	}
	if err := local.checkSession(op, remote); err != nil {
		return nil, err
	}
	if common := rankSet(local.peers); slices.ContainsFunc(remote.peers, func(n int32) bool { return common[n] }) {
		return nil, local.proc.raise(&Error{ErrGroup, op, local.proc.boot.Rank, errors.New("the groups have processes in common")})
	}
	if len(remote.peers) == 0 {
		return nil, local.proc.raise(&Error{ErrGroup, op, local.proc.boot.Rank, errors.New("the other group is empty")})
	}
	c := local.proc.newComm(remote.peers, local.Rank())
	c.session, c.localGroup = local.session, local.peers
	first, second := c.orderedGroups()
	both := slices.Concat(first, second)
	c.coll.peers, c.coll.rank = both, int32(rankIn(both, int32(c.proc.boot.Rank)))
	if err := c.createFromGroup(call, newCreationID(tag, first, second)); err != nil {
		return nil, err
	}
	return c, nil
}

// orderedGroups are the two groups of an intercommunicator in an order that is the same in both.
func (c *Comm) orderedGroups() (first, second []int32) {
	if slices.Min(c.localGroup) < slices.Min(c.peers) {
		return c.localGroup, c.peers
	}
	return c.peers, c.localGroup
}

// Remote tells whether the communicator is an intercommunicator. MPI-5.0 §7.6.1, as MPI_Comm_test_inter.
func (c *Comm) Remote() bool { return c.localGroup != nil }

// RemoteSize is the number of processes of an intercommunicator's other group; 0 in an intracommunicator. MPI-5.0 §7.6.1.
func (c *Comm) RemoteSize() int {
	if c.localGroup == nil {
		return 0
	}
	return len(c.peers)
}

// RemoteGroup is an intercommunicator's other group; empty in an intracommunicator. MPI-5.0 §7.6.1.
func (c *Comm) RemoteGroup() *Group {
	if c.localGroup == nil {
		return &Group{c.proc, c.session, nil}
	}
	return &Group{c.proc, c.session, c.peers}
}

var errInter = errors.New("this takes an intracommunicator: Merge makes one of both groups")

// Merge makes an intracommunicator of both groups of an intercommunicator: first the processes of the group that gives
// high as false, then the others. If both give the same, some order is taken. All processes of a group give the same, or
// it is ErrArg at all. It is collective, and takes no attributes along. MPI-5.0 §7.6.2.
func (c *Comm) Merge(high bool) (*Comm, error) {
	op := perf.Merge.String()
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	if c.localGroup == nil {
		return nil, c.newError(op, ErrComm, errors.New("the communicator has no second group"))
	}
	defer c.proc.recordCall(perf.Merge)()
	first, second := c.orderedGroups()
	mine := [1]uint8{0b1111} // bits: first gives low, first gives high, second low, second high
	refused := uint8(0b01)
	if !high {
		refused = 0b10
	}
	if slices.Contains(second, int32(c.proc.boot.Rank)) {
		refused <<= 2
	}
	mine[0] &^= refused
	m := c.newAgreement(perf.Merge)
	all, err := m.andBits(mine[0])
	if err != nil {
		return nil, err
	}
	if all&0b11 == 0 || all&0b1100 == 0 {
		return nil, c.newError(op, ErrArg, errors.New("the processes of a group do not agree on high"))
	}
	if all&0b10 != 0 && all&0b1000 == 0 { // the first is high, the second is not
		first, second = second, first
	}
	both := slices.Concat(first, second)
	d := c.newChild(both, rankIn(both, int32(c.proc.boot.Rank)))
	ctx, err := m.allocContextID(true)
	if err != nil {
		return nil, err
	}
	d.activate(ctx)
	return d, nil
}
