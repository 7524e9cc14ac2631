package mpi

import (
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// collState is a communicator as its collectives see it: messages in a context of their own, and memory shared by all ranks
// where there is such. It implements coll.Peer and coll.Waiter.
type collState struct {
	comm        *Comm
	peers       []int32 // process by rank: all of them, also of an intercommunicator
	rank        int32
	tag         int32 // of its messages
	busy        atomic.Bool
	scratch     []byte
	scratchUsed int
	operation   coll.Operation // of the collective under way

	op      perf.Op // the collective under way, as it is recorded
	opBytes int     // of this rank
	opBegan uint64

	sharingTried bool // to share memory
	flat         *coll.Flat
	seg          fabric.Segment
	sleepers     *uint64 // in seg: how many ranks sleep until a word changes
}

func (g *collState) init(c *Comm, peers []int32, rank int32) {
	g.comm, g.peers, g.rank = c, peers, rank
}

// beginIntracomm starts a collective that is not defined on intercommunicators; see beginCollective.
func (c *Comm) beginIntracomm(as perf.Op, bytes int) error {
	if c != nil && c.localGroup != nil {
		return c.newError(as.String(), ErrComm, errInter)
	}
	return c.beginCollective(as, bytes)
}

// beginCollective is begin for what all processes of an intercommunicator do together, as if they were one group.
func (c *Comm) beginCollective(as perf.Op, bytes int) error {
	if err := c.checkUsable(as.String()); err != nil {
		return err
	}
	if !c.coll.busy.CompareAndSwap(false, true) {
		return c.newError(as.String(), ErrComm, errors.New("another collective of this communicator is under way"))
	}
	g := &c.coll
	g.scratchUsed = 0
	g.op, g.opBytes, g.opBegan = as, bytes, c.engine.BeginOp(as, bytes)
	if !g.sharingTried {
		if err := g.shareMemory(); err != nil {
			c.endCollective()
			return c.wrapError(as.String(), err)
		}
	}
	return nil
}

func (c *Comm) endCollective() {
	g := &c.coll
	c.engine.EndOp(g.op, g.opBytes, g.opBegan)
	g.op = perf.NoOp
	g.busy.Store(false)
}

// Rank is the rank of this process.
func (g *collState) Rank() int { return int(g.rank) }

// Size is the number of ranks.
func (g *collState) Size() int { return len(g.peers) }

func (g *collState) sendRoute(dst int) proto.Route {
	return proto.Route{Context: g.comm.contextID | collectiveBit, Peer: g.peers[dst],
		Match: proto.Match{Rank: g.rank, Tag: g.tag}, Op: g.op.Within()}
}

func (g *collState) recvRoute(src int) proto.Route {
	return proto.Route{Context: g.comm.contextID | collectiveBit, Peer: g.peers[src],
		Match: proto.Match{Rank: int32(src), Tag: g.tag}, Op: g.op.Within()}
}

// Send sends b.
func (g *collState) Send(dst int, b []byte) error {
	return g.comm.engine.Send(g.sendRoute(dst), b, proto.Standard)
}

// Recv receives b.
func (g *collState) Recv(src int, b []byte) error {
	_, err := g.comm.engine.Recv(g.recvRoute(src), b)
	return err
}

// Sendrecv does both at the same time.
func (g *collState) Sendrecv(dst int, s []byte, src int, r []byte) error {
	h := g.comm.engine.Irecv(g.recvRoute(src), r)
	if err := g.comm.engine.Send(g.sendRoute(dst), s, proto.Standard); err != nil {
		g.comm.cancelRecv(h)
		return err
	}
	_, err := g.comm.engine.Wait(h)
	return err
}

// Isend begins to send.
func (g *collState) Isend(dst int, b []byte) (coll.Handle, error) {
	h, err := g.comm.engine.Isend(g.sendRoute(dst), b, proto.Standard)
	return collHandle(h), err
}

// Irecv begins to receive.
func (g *collState) Irecv(src int, b []byte) (coll.Handle, error) {
	return collHandle(g.comm.engine.Irecv(g.recvRoute(src), b)), nil
}

func collHandle(h proto.Handle) coll.Handle {
	if h.Zero() {
		return coll.Handle{}
	}
	a, b := h.Encode()
	return coll.Handle{A: a, B: b}
}

// Waitall waits for all.
func (g *collState) Waitall(hs []coll.Handle) (first error) {
	for _, h := range hs {
		if _, err := g.comm.engine.Wait(g.comm.engine.DecodeHandle(h.A, h.B)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Scratch lends memory until the next collective.
func (g *collState) Scratch(n int) []byte {
	if len(g.scratch)-g.scratchUsed < n {
		// What was lent stays where it is; from the next collective on one piece is enough.
		g.scratch = make([]byte, max(n, 2*len(g.scratch), 4096))
		g.scratchUsed = 0
	}
	b := g.scratch[g.scratchUsed : g.scratchUsed+n : g.scratchUsed+n]
	g.scratchUsed = min((g.scratchUsed+n+15)&^15, len(g.scratch))
	return b
}
