package mpi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/perf"
)

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
	if err := c.createFromGroup(call, newCreationID(tag, g.peers), info); err != nil {
		return nil, err
	}
	return c, nil
}

// checkCreate returns an error if no communicator can be created from the group at this process.
func (g *Group) checkCreate(op, tag string) error {
	if g == nil || g.proc == nil {
		return newError(op, ErrGroup, errNoGroup)
	}
	p := g.proc
	refuse := func(class Class, why error) error { return p.newError(op, class, why) }
	switch {
	case g.session != nil && g.session.closed.Load():
		return refuse(ErrSession, errClosed)
	case g.session == nil && p.finalized.Load():
		return refuse(ErrGroup, errors.New("the group belongs to the World Model, which has been finalized"))
	case g.Rank() == Undefined:
		return refuse(ErrGroup, errors.New("this process is not in the group"))
	case len(tag) > MaxStringTag || strings.ContainsRune(tag, 0):
		return refuse(ErrArg, fmt.Errorf("the tag has %d bytes; want at most %d, and no NUL", len(tag), MaxStringTag))
	}
	return nil
}
