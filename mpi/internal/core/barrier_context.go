package core

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// A BarrierContext can be left until all ranks have called it. A rank that enters sends ARRIVE to
// rank 0. If its context ends it sends LEAVE, and returns without an answer. When all ranks have
// arrived, rank 0 sends each PREPARE. A rank that gets it answers with YES and can no longer leave;
// from one that has left meanwhile LEAVE is on its way. If all have said YES, rank 0 sends GO;
// otherwise BACK, and those ranks can leave again. So no rank waits for one that is not in the call
// without being able to leave.
//
// Each message has the number of the sender's or receiver's call, since PREPARE and LEAVE may
// cross.

// enterTag is the tag of these messages; see checkTag.
const enterTag = 1<<29 + 1

const (
	enterArrive uint64 = iota
	enterLeave
	enterPrepare
	enterYes
	enterGo
	enterBack
)

// enterState is what a communicator keeps of its calls of BarrierContext.
type enterState struct {
	call    uint64   // number of the last call of this rank
	arrived []uint64 // at rank 0: by rank, the number of the call in which it waits; 0: it has not arrived
	message [2]uint64
}

// BarrierContext is Barrier that ends when ctx ends, unless all ranks have called it.
func (cs *Collectives) BarrierContext(ctx context.Context) error {
	const call = perf.Barrier
	op := call.String()
	if err := cs.checkUsable(op); err != nil {
		return err
	}
	c := cs.comm
	// Before begin: the other ranks have not learned of this call, so there is nothing to take
	// back.
	if err := proto.Stopped(ctx); err != nil {
		return c.wrapStopped(op, err)
	}
	if err := cs.main.begin(); err != nil {
		return c.wrapError(op, err)
	}
	began := c.engine.Recording().BeginOp(call, 0)
	x := entrance{cs.main.beside(enterTag, call.Within()), &cs.entering}
	var err error
	if x.g.rank == 0 {
		err = x.admit(ctx)
	} else {
		err = x.enter(ctx)
	}
	c.engine.Recording().EndOpOn(c.contextID, call, 0, began)
	cs.main.end()
	return c.wrapStopped(op, err)
}

// entrance is a call of BarrierContext.
type entrance struct {
	g *collState // of its messages
	s *enterState
}

func (x entrance) send(rank int, kind, call uint64) error {
	x.s.message = [2]uint64{kind, call}
	return x.g.Send(rank, Bytes(x.s.message[:]))
}

func (x entrance) recv(ctx context.Context, rank int) (kind, call uint64, err error) {
	g, s := x.g, x.s
	// A context that never ends needs no request that could be cancelled.
	if ctx.Done() == nil {
		err = g.Recv(rank, Bytes(s.message[:]))
	} else if _, err = g.engine.RecvContext(ctx, g.recvRoute(rank), Bytes(s.message[:])); err != nil {
		err = g.check(err)
	}
	return s.message[0], s.message[1], err
}

// enter is BarrierContext at the ranks other than 0.
func (x entrance) enter(ctx context.Context) error {
	s := x.s
	s.call++
	if err := x.send(0, enterArrive, s.call); err != nil {
		return err
	}
	for {
		kind, call, err := x.recv(ctx, 0)
		if stopped, ok := err.(*proto.StoppedError); ok {
			// Rank 0 may have sent PREPARE meanwhile. It takes LEAVE as the answer, since both have
			// the number of this call.
			if err := x.send(0, enterLeave, s.call); err != nil {
				return err
			}
			return stopped
		}
		if err != nil {
			return err
		}
		if kind != enterPrepare || call != s.call {
			continue // of a call that this rank has left
		}
		if err := x.send(0, enterYes, s.call); err != nil {
			return err
		}
		// This rank has promised to stay, so ctx no longer counts. The answer does not take long:
		// every rank says YES or LEAVE at once.
		if kind, _, err = x.recv(context.Background(), 0); err != nil || kind == enterGo {
			return err
		}
	}
}

// admit is BarrierContext at rank 0.
func (x entrance) admit(ctx context.Context) error {
	g, s := x.g, x.s
	// Only rank 0 needs it, and only if the program makes this call.
	if s.arrived == nil {
		s.arrived = make([]uint64, len(g.peers))
	}
	for {
		for rank := 1; rank < len(g.peers); rank++ {
			for s.arrived[rank] == 0 {
				// If ctx ends, the ranks that have arrived are kept for the next call of rank 0. A
				// rank that has left meanwhile has sent LEAVE, which prepare receives.
				kind, call, err := x.recv(ctx, rank)
				if err != nil {
					return err
				}
				if kind == enterArrive {
					s.arrived[rank] = call
				}
			}
		}
		if all, err := x.prepare(); all || err != nil {
			return err
		}
	}
}

// prepare asks all ranks whether they are still in the call, tells them the result, and reports it.
func (x entrance) prepare() (all bool, err error) {
	g, s := x.g, x.s
	for rank := 1; rank < len(g.peers); rank++ {
		if err := x.send(rank, enterPrepare, s.arrived[rank]); err != nil {
			return false, err
		}
	}
	all = true
	for rank := 1; rank < len(g.peers); rank++ {
		kind, call, err := x.recv(context.Background(), rank)
		if err != nil {
			return false, err
		}
		if call != s.arrived[rank] || kind != enterYes && kind != enterLeave {
			return false, fmt.Errorf("rank %d sent message %d of call %d, want call %d", rank, kind, call, s.arrived[rank])
		}
		if kind == enterLeave {
			s.arrived[rank], all = 0, false
		}
	}
	result := enterBack
	if all {
		result = enterGo
	}
	for rank := 1; rank < len(g.peers); rank++ {
		if s.arrived[rank] == 0 { // this rank has left, and waits for no answer
			continue
		}
		if err := x.send(rank, result, s.arrived[rank]); err != nil {
			return false, err
		}
		if all {
			s.arrived[rank] = 0
		}
	}
	return all, nil
}
