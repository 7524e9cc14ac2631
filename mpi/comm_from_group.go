package mpi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/perf"
)

// CommFromGroup makes a communicator of the processes of a group, in their order, without another one to start from. It is
// collective over the group: all give it in the same order and the same tag. It belongs to the session that the group is
// from, or to the World Model. Of an empty group it is nil.
//
// The tag tells calls apart that goroutines make at the same time for the same processes. It may be used again later;
// calls with the same tag for the same processes go one after the other. It has at most MaxStringTag bytes without NUL.
//
// It is ErrGroup if the group lacks this process, ErrSession if its session has been closed, and ErrProcFailed if one of
// the processes is lost, or has left the job. Hints that are not known are ignored. MPI-5.0 §7.4.2.
func CommFromGroup(g *Group, tag string, _ *Info) (*Comm, error) {
	const call = perf.CommFromGroup
	op := call.String()
	if g != nil && len(g.peers) == 0 {
		return nil, nil
	}
	if err := g.checkCreate(op, tag); err != nil {
		return nil, err
	}
	c := g.proc.newComm(g.peers, g.Rank())
	c.session = g.session
	if err := c.createFromGroup(call, newCreationID(tag, g.peers)); err != nil {
		return nil, err
	}
	return c, nil
}

// checkCreate tells why no communicator can be made here of a group, perhaps with another.
func (g *Group) checkCreate(op, tag string) error {
	if g == nil || g.proc == nil {
		return newError(op, ErrGroup, errNoGroup)
	}
	p := g.proc
	refuse := func(class Class, why error) error { return p.raise(&Error{class, op, p.boot.Rank, why}) }
	switch {
	case g.session != nil && g.session.closed.Load():
		return refuse(ErrSession, errClosed)
	case g.session == nil && p.finalized.Load():
		return refuse(ErrGroup, errors.New("the group is of the World Model, which has been finalized"))
	case g.Rank() == Undefined:
		return refuse(ErrGroup, errors.New("this process is not in the group"))
	case len(tag) > MaxStringTag || strings.ContainsRune(tag, 0):
		return refuse(ErrArg, fmt.Errorf("the tag has %d bytes: at most %d without NUL", len(tag), MaxStringTag))
	}
	return nil
}

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
