package mpi

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/proto"
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
	p     *Process
	e     *proto.Engine
	ctx   uint32 // of messages; the collectives have ctx|1
	rank  int32
	peers []int32 // number in World by rank
	freed atomic.Bool
	group group
}

func (p *Process) comm(ctx uint32, peers []int32, rank int) *Comm {
	c := &Comm{p: p, e: p.e, ctx: ctx, rank: int32(rank), peers: peers}
	c.group.init(c)
	p.live.Store(c, nil)
	return c
}

// Rank is the number of this process in the communicator, from 0. MPI-5.0 §7.4.1.
func (c *Comm) Rank() int { return int(c.rank) }

// Size is the number of processes. MPI-5.0 §7.4.1.
func (c *Comm) Size() int { return len(c.peers) }

// Free gives the communicator up. It is collective and waits for all ranks; receives that still wait fail with
// ErrComm, and every later call does. World and Self cannot be freed. MPI-5.0 §7.4.3.
func (c *Comm) Free() error {
	const op = "Free"
	if err := c.usable(op); err != nil {
		return err
	}
	if c == c.p.world || c == c.p.self {
		return c.err(op, ErrComm, fmt.Errorf("World and Self stay"))
	}
	if err := c.barrier(op); err != nil {
		return err
	}
	if c.freed.Swap(true) {
		return c.err(op, ErrComm, fmt.Errorf("freed twice"))
	}
	gone := &Error{ErrComm, op, int(c.rank), nil}
	c.e.Forget(c.ctx, gone)
	c.e.Forget(c.ctx|collective, gone)
	c.p.live.Delete(c)
	err := c.closeFlat()
	c.p.ids.give(c.ctx)
	return c.below(op, err)
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

// usable refuses a communicator that is nil or freed.
func (c *Comm) usable(op string) error {
	if c == nil {
		return fault(op, ErrComm, fmt.Errorf("the communicator is nil"))
	}
	if c.freed.Load() {
		return c.err(op, ErrComm, fmt.Errorf("the communicator has been freed"))
	}
	return nil
}

// toward checks the arguments of a send and tells where it goes.
func (c *Comm) toward(dst int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(dst) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.ctx, Peer: c.peers[dst], Rank: c.rank, Tag: int32(tag)}, true
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
	return proto.Route{Peer: proto.Nobody}, nil
}

// from checks the arguments of a receive and tells what it takes.
func (c *Comm) from(src int, tag Tag) (proto.Route, bool) {
	if c == nil || uint(src) >= uint(len(c.peers)) || tag < 0 || c.freed.Load() {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.ctx, Rank: int32(src), Tag: int32(tag)}, true
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
	return proto.Route{Context: c.ctx, Rank: int32(src), Tag: int32(tag)}, nil
}
