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
	p       *Process
	e       *proto.Engine
	session *Session // nil: the World Model
	ctx     uint32   // of messages; the collectives have ctx|1
	rank    int32
	peers   []int32     // process by rank: in an intercommunicator, by rank in the remote group
	local   []int32     // the local group of an intercommunicator; otherwise nil
	freed   atomic.Bool // or not made yet
	group   group
	graph   *Neighbors // of a communicator with a graph; never changed

	attrs   attrs.Cache[*Comm]
	birth   uint64         // order in which communicators of the process were made
	freeing atomic.Bool    // delete callbacks of Free may be under way
	copying atomic.Int32   // copy callbacks are under way for as many duplicates
	turns   atomic.Uint32  // meetings aside so far
	aside   sync.WaitGroup // those under way

	hinting sync.Mutex
	hints   hints // guarded by hinting
}

// child is draft for a communicator made from another.
func (c *Comm) child(peers []int32, rank int) *Comm {
	d := c.p.draft(peers, rank)
	d.session = c.session
	return d
}

// draft makes a communicator that cannot be used yet.
func (p *Process) draft(peers []int32, rank int) *Comm {
	c := &Comm{p: p, e: p.e, rank: int32(rank), peers: peers, birth: p.births.Add(1), hints: newHints()}
	c.freed.Store(true)
	c.group.init(c, peers, c.rank)
	c.attrs.Init(&p.keys, c)
	return c
}

// open gives a communicator its context, and to use.
func (c *Comm) open(ctx uint32) {
	c.ctx = ctx
	c.p.live.Store(c, nil)
	c.freed.Store(false)
}

// openWith is open with hints, unless h is nil.
func (c *Comm) openWith(ctx uint32, h *hints) {
	c.ctx = ctx
	if h != nil {
		c.adopt(*h)
	}
	c.open(ctx)
}

// Rank is the number of this process in the communicator, from 0. MPI-5.0 §7.4.1.
func (c *Comm) Rank() int { return int(c.rank) }

// Size is the number of processes; of an intercommunicator, that of the local group. MPI-5.0 §7.4.1.
func (c *Comm) Size() int {
	if c.local != nil {
		return len(c.local)
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
	if err := c.removable(perf.Free.String()); err != nil {
		return err
	}
	defer c.p.called(perf.Free)()
	return c.free(perf.Free)
}

// Disconnect is Free that first waits for all messages under way: receives that this rank has begun complete, and are
// to be waited for afterwards, as are sends. MPI-5.0 §11.10.4.
func (c *Comm) Disconnect() error {
	op := perf.Disconnect.String()
	if err := c.removable(op); err != nil {
		return err
	}
	defer c.p.called(perf.Disconnect)()
	if err := c.e.WaitContextIdle(perf.Disconnect, c.ctx); err != nil {
		return c.below(op, err)
	}
	return c.free(perf.Disconnect)
}

// removable refuses communicators that cannot be freed.
func (c *Comm) removable(op string) error {
	if err := c.usable(op); err != nil {
		return err
	}
	if c == c.p.world || c == c.p.self {
		return c.err(op, ErrComm, fmt.Errorf("World and Self stay"))
	}
	if c.copying.Load() != 0 {
		return c.err(op, ErrComm, fmt.Errorf("the communicator is being duplicated"))
	}
	return nil
}

func (c *Comm) free(call perf.Op) error {
	op := call.String()
	if !c.freeing.CompareAndSwap(false, true) {
		return c.err(op, ErrComm, fmt.Errorf("the communicator is being freed"))
	}
	defer c.freeing.Store(false)
	failed := c.below(op, c.attrs.Clear())
	c.aside.Wait()
	if err := c.meet(call).agree(failed); err != nil {
		return err
	}
	return c.below(op, c.shut(op))
}

// shut ends a communicator at this rank: receives that still wait fail.
func (c *Comm) shut(op string) error {
	if c.freed.Swap(true) {
		return c.err(op, ErrComm, fmt.Errorf("freed twice"))
	}
	gone := &Error{ErrComm, op, int(c.rank), nil}
	c.e.EndContext(c.ctx, gone)
	c.e.EndContext(c.ctx|collective, gone)
	c.p.live.Delete(c)
	err := c.closeFlat()
	c.p.ids.give(c.ctx)
	return err
}

// err makes an error of a call on this communicator.
func (c *Comm) err(op string, class Class, err error) error {
	return c.p.raise(&Error{class, op, int(c.rank), err})
}

// below wraps an error from below; nil stays nil.
func (c *Comm) below(op string, err error) error {
	if err == nil {
		return nil
	}
	return c.err(op, classify(err), err)
}

// also is an error, and what went wrong after it, if anything did.
func (c *Comm) also(op string, err, then error) error {
	if then == nil {
		return err
	}
	return c.below(op, errors.Join(err, then))
}

// usable refuses a communicator that is nil or freed.
func (c *Comm) usable(op string) error {
	if c == nil {
		return fault(op, ErrComm, fmt.Errorf("the communicator is nil"))
	}
	if c.freed.Load() {
		return c.err(op, ErrComm, fmt.Errorf("the communicator has been freed, or is still being made"))
	}
	return nil
}

// toward checks the arguments of a send and tells where it goes.
func (c *Comm) toward(dst int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(dst) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.ctx, Peer: c.peers[dst], Match: proto.Match{Rank: c.rank, Tag: int32(tag)}}, true
}

// towardSlow is toward for what toward refuses: no process, or an error to be told.
func (c *Comm) towardSlow(op string, dst int, tag Tag) (proto.Route, error) {
	switch {
	case c == nil || c.freed.Load():
		return proto.Route{}, c.usable(op)
	case tag < 0:
		return proto.Route{}, c.err(op, ErrTag, fmt.Errorf("tag %d: a message has one from 0 to 2147483647", tag))
	case dst != ProcNull:
		return proto.Route{}, c.err(op, ErrRank, fmt.Errorf("rank %d of %d", dst, len(c.peers)))
	}
	return proto.Route{Peer: proto.ProcNull}, nil
}

// from checks the arguments of a receive and tells what it takes.
func (c *Comm) from(src int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(src) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.ctx, Peer: c.peers[src], Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}, true
}

// fromSlow is from for what from refuses: wildcards, no process, or an error to be told.
func (c *Comm) fromSlow(op string, src int, tag Tag) (proto.Route, error) {
	switch {
	case c == nil || c.freed.Load():
		return proto.Route{}, c.usable(op)
	case tag < 0 && tag != AnyTag:
		return proto.Route{}, c.err(op, ErrTag, fmt.Errorf("tag %d: a receive names one from 0 to 2147483647, or AnyTag", tag))
	case src != ProcNull && src != AnySource && uint(src) >= uint(len(c.peers)):
		return proto.Route{}, c.err(op, ErrRank, fmt.Errorf("rank %d of %d", src, len(c.peers)))
	}
	from := proto.Route{Context: c.ctx, Peer: proto.AnySource, Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}
	if src >= 0 {
		from.Peer = c.peers[src]
	}
	return from, nil
}
