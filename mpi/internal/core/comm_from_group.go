package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// CommFromGroup creates a communicator of the processes of a group, in their order, without an
// existing communicator.
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
	c.setSession(g.session)
	return newAgreement(c, call).createFromGroup(creation.NewID(tag, g.peers), info)
}

// setSession makes a communicator that is being created belong to a session, whose error handler it
// gets.
func (c *Comm) setSession(s *Session) {
	if c.session = s; s != nil {
		c.handler.Set(s.handler.Get())
	}
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

// createFromGroup agrees on a context for the communicator, which is being created, activates it,
// and returns it. From then on all its processes need each other: the loss of one is an error of
// the others.
func (a *agreement) createFromGroup(id creation.ID, info *Info) (*Comm, error) {
	c, p := a.comm, a.comm.proc
	defer p.recording.call(a.call)()
	p.ctrl.Begin(id)
	defer p.ctrl.End(id)
	a.creation = creation.New(&p.ctrl, id, c.coll.main.peers, int32(p.boot.Rank), a.recordAs)
	// A process that has left before would never answer. One that leaves later ends the wait for
	// its messages.
	err := c.wrapError(a.op, a.creation.PeerError())
	h := newHints().withInfo(info, railsOf(c))
	if err == nil { // this agreement also shows that all processes are about to call allocContextID
		h, err = a.agreeHints(h)
	}
	var ctx uint32
	if err == nil {
		ctx, err = a.allocContextID(true)
	}
	if err != nil {
		if errors.Is(err, proto.ErrFailed) {
			// The others still wait for messages of this process, which it will not send.
			a.creation.Abandon()
		}
		return nil, err
	}
	c.activateWithHints(ctx, &h)
	return c, nil
}
