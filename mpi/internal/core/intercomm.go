package core

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/perf"
)

// IntercommFromGroups creates an intercommunicator of two groups that have no process in common.
func IntercommFromGroups(local, remote *Group, tag string, info *Info) (*Comm, error) {
	const call = perf.IntercommFromGroups
	op := call.String()
	if err := local.checkCreate(op, tag); err != nil {
		return nil, err
	}
	if err := local.checkSession(op, remote); err != nil {
		return nil, err
	}
	if common := rankSet(local.peers); slices.ContainsFunc(remote.peers, func(n int32) bool { return common[n] }) {
		return nil, local.proc.newError(op, ErrGroup, errors.New("the groups have processes in common"))
	}
	if len(remote.peers) == 0 {
		return nil, local.proc.newError(op, ErrGroup, errors.New("the remote group is empty"))
	}
	c := local.proc.newIntercomm(local.session, local.peers, remote.peers)
	first, second := orderedGroups(c.localGroup, c.peers)
	return newAgreement(c, call).createFromGroup(creation.NewID(tag, first, second), info)
}

// newIntercomm returns an intercommunicator that cannot be used before activate is called. This
// process is in the group local.
func (p *Process) newIntercomm(s *Session, local, remote []int32) *Comm {
	self := int32(p.boot.Rank)
	c := p.newComm(remote, rankIn(local, self))
	c.localGroup = local
	c.setSession(s)
	// In collectives the ranks of both groups have numbers of their own, which must be the same at
	// all of them.
	first, second := orderedGroups(c.localGroup, c.peers)
	both := slices.Concat(first, second)
	c.coll.main.peers, c.coll.main.rank = both, int32(rankIn(both, self))
	return c
}

// newInterChild is newIntercomm for a communicator that is derived from c and belongs to the same
// session.
func newInterChild(c *Comm, local, remote []int32) *Comm {
	d := c.proc.newIntercomm(c.session, local, remote)
	d.handler.Set(c.handler.Get())
	return d
}

// side is a group of an intercommunicator within the peers of its collectives, which are the
// processes of both.
type side struct{ first, n int }

// sides returns the local and the remote group. On an intracommunicator all processes are local.
func (cs *Collectives) sides() (local, remote side) {
	c := cs.comm
	local, remote = side{n: c.Size()}, side{n: c.RemoteSize()}
	if cs.main.rank == c.rank { // the local group comes first
		remote.first = local.n
	} else {
		local.first = remote.n
	}
	return local, remote
}

// orderedGroups returns the two groups of an intercommunicator in an order that is the same in
// both.
func orderedGroups(local, remote []int32) (first, second []int32) {
	if slices.Min(local) < slices.Min(remote) {
		return local, remote
	}
	return remote, local
}

// Remote reports whether the communicator is an intercommunicator.
func (c *Comm) Remote() bool { return !c.isNone() && c.localGroup != nil }

// RemoteSize returns the number of processes of an intercommunicator's remote group; 0 for an
// intracommunicator.
func (c *Comm) RemoteSize() int {
	if !c.Remote() {
		return 0
	}
	return len(c.peers)
}

// RemoteGroup returns an intercommunicator's remote group; the empty group for an
// intracommunicator.
func (c *Comm) RemoteGroup() *Group {
	switch {
	case c.isNone():
		return nil
	case c.localGroup == nil:
		return &Group{c.proc, c.session, nil}
	}
	return &Group{c.proc, c.session, c.peers}
}

var errInter = errors.New("not supported on intercommunicators: create an intracommunicator of both groups with Merge")

// Merge creates an intracommunicator of both groups of an intercommunicator: first the processes of
// the group that gives high as false, then the others.
func Merge(c *Comm, high bool) (*Comm, error) {
	const call = perf.Merge
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	if c.localGroup == nil {
		return nil, c.newError(op, ErrComm, errors.New("the communicator is not an intercommunicator"))
	}
	a, err := begin(c, call, nil)
	if err != nil {
		return nil, err
	}
	defer a.end()
	first, second := orderedGroups(c.localGroup, c.peers)
	mine := [1]uint8{0b1111} // bits: first gives low, first gives high, second low, second high
	// Each rank removes the bit of the answer that it does not give. Of a group whose ranks agree,
	// one of the two bits remains.
	refused := uint8(0b01)
	if !high {
		refused = 0b10
	}
	if slices.Contains(second, int32(c.proc.boot.Rank)) {
		refused <<= 2
	}
	mine[0] &^= refused
	all, err := a.andBits(mine[0])
	if err != nil {
		return nil, err
	}
	if all&0b11 == 0 || all&0b1100 == 0 {
		return nil, c.newError(op, ErrArg, errors.New("the processes of a group gave different values of high"))
	}
	if all&0b10 != 0 && all&0b1000 == 0 { // the first is high, the second is not
		first, second = second, first
	}
	both := slices.Concat(first, second)
	d := newChild(c, both, rankIn(both, int32(c.proc.boot.Rank)))
	ctx, err := a.allocContextID(true)
	if err != nil {
		return nil, err
	}
	d.activate(ctx)
	return d, nil
}
