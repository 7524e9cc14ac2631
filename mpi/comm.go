package mpi

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Ranks and tags with a meaning of their own, as in the MPI-5.0 ABI.
const (
	// AnySource lets a receive take a message from any rank. MPI-5.0 §3.2.4.
	AnySource = -1
	// AnyTag lets a receive take a message with any tag. MPI-5.0 §3.2.4.
	AnyTag Tag = -2
	// ProcNull is the rank of no process: sending to it does nothing, receiving gives an empty message. MPI-5.0 §3.10.
	ProcNull = -3
	// Undefined is the color of ranks that join no communicator in Split, and the index of no request. MPI-5.0 §7.4.2.
	Undefined = -32766
)

// Tag tells messages between the same ranks apart: 0 to 2^31-1, on every transport. MPI-5.0 §3.2.3.
type Tag int32

// Comm is a communicator: an ordered group of processes with messages of its own. Any goroutine may call its methods.
type Comm struct {
	proc       *Process
	engine     *proto.Engine
	session    *Session // nil: the World Model
	contextID  uint32   // of messages; the collectives have ctx|1
	rank       int32
	peers      []int32     // process by rank: in an intercommunicator, by rank in the remote group
	localGroup []int32     // the local group of an intercommunicator; otherwise nil
	freed      atomic.Bool // or not made yet
	coll       collState
	graph      *Neighbors // of a communicator with a graph; never changed

	attrs   attrs.Cache[*Comm]
	seq     uint64         // order in which communicators of the process were made
	freeing atomic.Bool    // delete callbacks of Free may be under way
	copying atomic.Int32   // copy callbacks are under way for as many duplicates
	idupSeq atomic.Uint32  // meetings aside so far
	idups   sync.WaitGroup // those under way

	hintsMu sync.Mutex
	hints   hints // guarded by hinting
}

// newChild is draft for a communicator made from another.
func (c *Comm) newChild(peers []int32, rank int) *Comm {
	d := c.proc.newComm(peers, rank)
	d.session = c.session
	return d
}

// newComm makes a communicator that cannot be used yet.
func (p *Process) newComm(peers []int32, rank int) *Comm {
	c := &Comm{proc: p, engine: p.engine, rank: int32(rank), peers: peers, seq: p.lastCommSeq.Add(1), hints: newHints()}
	c.freed.Store(true)
	c.coll.init(c, peers, c.rank)
	c.attrs.Init(&p.keys, c)
	return c
}

// activate gives a communicator its context, and to use.
func (c *Comm) activate(ctx uint32) {
	c.contextID = ctx
	c.proc.comms.Store(c, nil)
	c.freed.Store(false)
}

// activateWithHints is open with hints, unless h is nil.
func (c *Comm) activateWithHints(ctx uint32, h *hints) {
	c.contextID = ctx
	if h != nil {
		c.applyHints(*h)
	}
	c.activate(ctx)
}

// Rank is the number of this process in the communicator, from 0. MPI-5.0 §7.4.1.
func (c *Comm) Rank() int { return int(c.rank) }

// Size is the number of processes; of an intercommunicator, that of the local group. MPI-5.0 §7.4.1.
func (c *Comm) Size() int {
	if c.localGroup != nil {
		return len(c.localGroup)
	}
	return len(c.peers)
}

// Free gives the communicator up. It is collective and waits for all ranks; receives that still wait fail with
// ErrComm, and every later call does. World and Self cannot be freed.
//
// Its attributes are deleted first, in reverse order of setting. If a delete callback fails at any rank, then Free
// fails at all, with that error where it was, and the communicator stays: with that attribute and those set before it
// at the rank where it failed, without attributes elsewhere. MPI-5.0 §7.4.3.
func (c *Comm) Free() error {
	if err := c.checkFreeable(perf.Free.String()); err != nil {
		return err
	}
	defer c.proc.recordCall(perf.Free)()
	return c.free(perf.Free)
}

// Disconnect is Free that first waits for all messages under way: receives that this rank has begun complete, and are
// to be waited for afterwards, as are sends. MPI-5.0 §11.10.4.
func (c *Comm) Disconnect() error {
	op := perf.Disconnect.String()
	if err := c.checkFreeable(op); err != nil {
		return err
	}
	defer c.proc.recordCall(perf.Disconnect)()
	if err := c.engine.WaitContextIdle(perf.Disconnect, c.contextID); err != nil {
		return c.wrapError(op, err)
	}
	return c.free(perf.Disconnect)
}

// checkFreeable refuses communicators that cannot be freed.
func (c *Comm) checkFreeable(op string) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if c == c.proc.world || c == c.proc.self {
		return c.newError(op, ErrComm, fmt.Errorf("World and Self stay"))
	}
	if c.copying.Load() != 0 {
		return c.newError(op, ErrComm, fmt.Errorf("the communicator is being duplicated"))
	}
	return nil
}

func (c *Comm) free(call perf.Op) error {
	op := call.String()
	if !c.freeing.CompareAndSwap(false, true) {
		return c.newError(op, ErrComm, fmt.Errorf("the communicator is being freed"))
	}
	defer c.freeing.Store(false)
	failed := c.wrapError(op, c.attrs.Clear())
	c.idups.Wait()
	if err := c.newAgreement(call).agreeSuccess(failed); err != nil {
		return err
	}
	return c.wrapError(op, c.release(op))
}

// release ends a communicator at this rank: receives that still wait fail.
func (c *Comm) release(op string) error {
	if c.freed.Swap(true) {
		return c.newError(op, ErrComm, fmt.Errorf("freed twice"))
	}
	gone := &Error{ErrComm, op, int(c.rank), nil}
	c.engine.EndContext(c.contextID, gone)
	c.engine.EndContext(c.contextID|collectiveBit, gone)
	c.proc.comms.Delete(c)
	err := c.closeSharedMemory()
	c.proc.contextIDs.free(c.contextID)
	return err
}

// newError makes an error of a call on this communicator.
func (c *Comm) newError(op string, class Class, err error) error {
	return c.proc.raise(&Error{class, op, int(c.rank), err})
}

// wrapError wraps an error from below; nil stays nil.
func (c *Comm) wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	return c.newError(op, classify(err), err)
}

// joinError is an error, and what went wrong after it, if anything did.
func (c *Comm) joinError(op string, err, then error) error {
	if then == nil {
		return err
	}
	return c.wrapError(op, errors.Join(err, then))
}

// checkUsable refuses a communicator that is nil or freed.
func (c *Comm) checkUsable(op string) error {
	if c == nil {
		return newError(op, ErrComm, fmt.Errorf("the communicator is nil"))
	}
	if c.freed.Load() {
		return c.newError(op, ErrComm, fmt.Errorf("the communicator has been freed, or is still being made"))
	}
	return nil
}

// fastSendRoute checks the arguments of a send and tells where it goes.
func (c *Comm) fastSendRoute(dst int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(dst) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.contextID, Peer: c.peers[dst], Match: proto.Match{Rank: c.rank, Tag: int32(tag)}}, true
}

// slowSendRoute is toward for what toward refuses: no process, or an error to be told.
func (c *Comm) slowSendRoute(op string, dst int, tag Tag) (proto.Route, error) {
	switch {
	case c == nil || c.freed.Load():
		return proto.Route{}, c.checkUsable(op)
	case tag < 0:
		return proto.Route{}, c.newError(op, ErrTag, fmt.Errorf("tag %d: a message has one from 0 to 2147483647", tag))
	case dst != ProcNull:
		return proto.Route{}, c.newError(op, ErrRank, fmt.Errorf("rank %d of %d", dst, len(c.peers)))
	}
	return proto.Route{Peer: proto.ProcNull}, nil
}

// fastRecvRoute checks the arguments of a receive and tells what it takes.
func (c *Comm) fastRecvRoute(src int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(src) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.contextID, Peer: c.peers[src], Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}, true
}

// slowRecvRoute is from for what from refuses: wildcards, no process, or an error to be told.
func (c *Comm) slowRecvRoute(op string, src int, tag Tag) (proto.Route, error) {
	switch {
	case c == nil || c.freed.Load():
		return proto.Route{}, c.checkUsable(op)
	case tag < 0 && tag != AnyTag:
		return proto.Route{}, c.newError(op, ErrTag, fmt.Errorf("tag %d: a receive names one from 0 to 2147483647, or AnyTag", tag))
	case src != ProcNull && src != AnySource && uint(src) >= uint(len(c.peers)):
		return proto.Route{}, c.newError(op, ErrRank, fmt.Errorf("rank %d of %d", src, len(c.peers)))
	}
	from := proto.Route{Context: c.contextID, Peer: proto.AnySource, Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}
	if src >= 0 {
		from.Peer = c.peers[src]
	}
	return from, nil
}
