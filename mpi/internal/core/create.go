package core

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/perf"
)

// Compare returns Ident for the same communicator, Congruent if only the contexts differ, Similar
// if the order of the ranks differs as well, and otherwise Unequal.
func Compare(c, d *Comm) (Comparison, error) {
	const op = "Compare"
	if err := c.checkUsable(op); err != nil {
		return Unequal, err
	}
	if err := d.checkUsable(op); err != nil {
		return Unequal, err
	}
	switch {
	// In tests the processes are goroutines of one program, so that this can happen.
	case c.proc != d.proc:
		return Unequal, c.newError(op, ErrComm, errors.New("the communicators belong to different processes"))
	case c == d:
		return Ident, nil
	case c.Remote() != d.Remote():
		return Unequal, nil
	}
	return max(Congruent, comparePeers(c.peers, d.peers), comparePeers(c.localGroup, d.localGroup)), nil
}

// Create creates a communicator of the processes of a group.
func Create(c *Comm, g *Group) (*Comm, error) {
	const call = perf.Create
	a, err := begin(c, call, c.checkUsable(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	// A rank that fails takes part as if it gave the empty group, so that the other ranks do not
	// block.
	failed := c.wrapError(a.op, g.checkPart(c))
	var color splitColor
	position := 0 // of this process in the group, from 1
	if failed == nil && len(g.peers) > 0 {
		color = newSplitColor(g.peers)
		position = rankIn(g.peers, int32(c.proc.boot.Rank)) + 1
	}
	// The position of a process that is not in the group is 1 + Undefined, which is negative.
	colors, positions, err := a.exchangeColors(color, max(position, 0))
	if err == nil && failed == nil {
		failed = a.checkSameGroup(g, color, colors, positions)
	}
	if err == nil {
		err = a.agreeSuccess(failed)
	}
	if err != nil {
		return nil, err
	}
	for r, n := range positions {
		switch {
		case n == 0:
			colors[r] = splitColor{}
		case c.Remote(): // the groups of the two sides differ, and become one communicator
			colors[r] = splitColor{1}
		}
	}
	return a.splitByColor(colors, positions)
}

// checkPart returns an error for a group from whose processes no communicator can be created
// over c.
func (g *Group) checkPart(c *Comm) error {
	switch {
	case g == nil:
		return WithClass(ErrGroup, errNoGroup)
	case g.proc == nil: // the zero Group
		return nil
	case g.proc != c.proc || g.session != c.session:
		return WithClass(ErrGroup, errors.New("the group belongs to another session than the communicator"))
	}
	members := rankSet(c.Group().peers)
	for r, n := range g.peers {
		if !members[n] {
			return faultf(ErrGroup, "rank %d of the group is process %d, which is not in the communicator", r, n)
		}
	}
	return nil
}

// checkSameGroup returns an error if a process that must give the same group in Create has given
// another: those of the group, and on an intercommunicator all of the local group.
func (a *agreement) checkSameGroup(g *Group, color splitColor, colors []splitColor, positions []int) error {
	c := a.comm
	local, _ := c.coll.sides()
	at := make(map[int32]int, len(g.peers)) // position by process, from 1
	for i, n := range g.peers {
		at[n] = i + 1
	}
	for r := local.first; r < local.first+local.n; r++ {
		n := at[c.coll.main.peers[r]]
		if (n > 0 || c.Remote()) && (colors[r] != color || positions[r] != n) {
			return c.newError(a.op, ErrGroup, fmt.Errorf("rank %d gave another group", r-local.first))
		}
	}
	return nil
}

// CreateGroup is Create for the processes of the group only.
func CreateGroup(c *Comm, g *Group, tag int) (*Comm, error) {
	const call = perf.CreateGroup
	op := call.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	if err := g.checkPart(c); err != nil {
		return nil, c.wrapError(op, err)
	}
	if uint(tag) > maxTag {
		return nil, c.newError(op, ErrTag, fmt.Errorf("tag %d is out of range (0 to %d)", tag, maxTag))
	}
	// Processes outside the group need not call it (MPI-5.0 §7.4.2). So nothing is agreed with
	// them, and errors up to here are of this process only.
	rank := g.Rank()
	if rank == Undefined {
		return nil, nil
	}
	d := newChild(c, g.peers, rank)
	// A tag of CommFromGroup has no NUL.
	return newAgreement(d, call).createFromGroup(creation.NewID(fmt.Sprintf("\x00group %d %d", c.contextID, tag), g.peers), nil)
}
