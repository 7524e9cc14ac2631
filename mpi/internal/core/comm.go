package core

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Special ranks and tags, with the values of the MPI-5.0 ABI.
const (
	// AnySource makes a receive match messages from any rank.
	AnySource = -1
	// AnyTag makes a receive match messages with any tag.
	AnyTag = -2
	// ProcNull is the rank of no process: a send to it does nothing, a receive from it returns an
	// empty message.
	ProcNull = -3
	// Undefined is the color of ranks that get no communicator from Split, and the index of no
	// request.
	Undefined = -32766
)

// Comm is a communicator: an ordered group of processes with its own message context. Any goroutine
// may call its methods.
type Comm struct {
	proc      *Process
	engine    *proto.Engine
	session   *Session // nil for the World Model
	contextID uint32   // context of messages; that of collectives has collectiveBit as well
	rank      int32

	peers      []int32       // process by rank; for an intercommunicator by rank in the remote group
	localGroup []int32       // local group of an intercommunicator; nil for an intracommunicator
	state      atomic.Uint32 // commReady or another of these constants
	checks     bool          // calls are checked; see Config.Check
	where      string        // source position of the call that created it, if calls are checked
	coll       Collectives
	topology   *Topology // set before activate

	attrs attrs.Cache[*Comm]
	seq   uint64 // order in which communicators of the process were created

	freeing atomic.Bool  // Free is in progress, or the communicator need not be waited for
	copying atomic.Int32 // number of duplicates for which copy callbacks run

	handler HandlerOf

	nameMu sync.Mutex
	name   string // guarded by nameMu

	hints currentHints
}

// States of a communicator. Only commReady can be used. The zero Comm is commNone.
const (
	commNone uint32 = iota
	commReady
	commCreating
	commFreed
	commFinalized
	commSessionClosed
)

// newChild is newComm for a communicator that is derived from c and belongs to the same session.
func newChild(c *Comm, peers []int32, rank int) *Comm {
	d := c.proc.newComm(peers, rank)
	d.session = c.session
	d.handler.Set(c.handler.Get())
	return d
}

// newComm returns a communicator that cannot be used before activate is called: until then its
// context is not known.
func (p *Process) newComm(peers []int32, rank int) *Comm {
	c := &Comm{proc: p, engine: p.engine, rank: int32(rank), peers: peers, seq: p.comms.lastSeq.Add(1),
		hints: currentHints{hints: newHints()}, checks: p.check}
	if p.check {
		c.where = callPosition()
	}
	c.state.Store(commCreating)
	// This is the handler of the process. A communicator that is made of another one, or in a session,
	// gets the handler of that one afterwards (MPI-5.0 §9.3).
	c.handler.Set(p.handler.Get())
	c.coll.comm = c
	c.coll.main.init(p, peers, c.rank)
	c.attrs.Init(&p.keys, c)
	return c
}

// activate sets the context id and makes the communicator usable.
func (c *Comm) activate(ctx uint32) {
	c.contextID = ctx
	c.coll.args = arguments{rank: c.Rank(), size: len(c.peers), local: c.Size(), topology: c.topology}
	c.coll.main.context = ctx | collectiveBit
	if nodes := c.proc.nodes; nodes != nil && !c.Remote() {
		c.coll.main.findLevels(nodes)
	}
	// The engine asks for communicators that are in use, so it is in the table before. The state is
	// stored last: a goroutine that loads commReady sees all the rest.
	c.proc.comms.add(c)
	c.state.Store(commReady)
}

// activateWithHints is activate that first applies hints, unless h is nil.
func (c *Comm) activateWithHints(ctx uint32, h *hints) {
	c.contextID = ctx
	// Before the program can use the communicator, so that no receive of it is posted without the
	// hints.
	if h != nil {
		c.hints.apply(c, *h)
	}
	c.activate(ctx)
}

// isNone reports whether c is nil or the zero Comm, which stand for no communicator.
func (c *Comm) isNone() bool { return c == nil || c.proc == nil }

// Rank returns the rank of this process in the communicator, from 0; Undefined if there is no
// communicator.
func (c *Comm) Rank() int {
	if c.isNone() {
		return Undefined
	}
	return int(c.rank)
}

// Size returns the number of processes; for an intercommunicator, that of the local group; 0 if
// there is no communicator.
func (c *Comm) Size() int {
	switch {
	case c.isNone():
		return 0
	case c.localGroup != nil:
		return len(c.localGroup)
	}
	return len(c.peers)
}

// newError returns the error of a call on this communicator.
func (c *Comm) newError(op string, class Class, err error) error {
	return c.proc.raise(&Error{Class: class, Op: op, Rank: int(c.rank), Err: err, at: origin{comm: c}})
}

// wrapError wraps an error of a lower layer; nil stays nil.
func (c *Comm) wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	return c.newError(op, c.proc.classify(err), err)
}

// joinError returns err, joined with a later error unless that is nil.
func (c *Comm) joinError(op string, err, then error) error {
	if then == nil {
		return err
	}
	return c.wrapError(op, join(err, then))
}

// CallResult returns the error of the call op: that the communicator cannot be used, or else err as
// an error of this call, nil for nil.
func (c *Comm) CallResult(op string, err error) error {
	if unusable := c.checkUsable(op); unusable != nil {
		return unusable
	}
	return c.wrapError(op, err)
}

// checkUsable returns an error if the communicator is nil, the zero Comm, not yet created, or no
// longer valid.
func (c *Comm) checkUsable(op string) error {
	if c == nil {
		return newError(op, ErrComm, errors.New("the communicator is nil"))
	}
	switch state := c.state.Load(); state {
	case commReady:
		return nil
	case commNone:
		return newError(op, ErrComm, errors.New("the communicator is the zero Comm"))
	case commCreating:
		return c.newError(op, ErrComm, errors.New("the communicator is still being created: wait for the request of Idup"))
	default:
		return c.newError(op, ErrComm, endings[state])
	}
}
