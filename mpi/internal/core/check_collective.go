package core

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/perf"
)

// When calls are checked, every collective begins with an exchange: each rank sends a description
// of its call to rank 0, which compares them and sends all ranks the result. The exchange is the
// same for all collectives, so different ones meet, and no rank waits for messages that never come.
// A rank that rejects its own arguments takes part as well: its error is an error of all.

// checkTag is the tag of this exchange. The messages of collectives have the tag 0, those of an
// Idup have the bit 30 set, and those of an immediate collective the bit 28.
const checkTag = 1 << 29

// compare compares a call with those of the other ranks. failed is the error that this rank has
// found by itself; compare returns it, or an error if another rank has failed or the calls differ.
func (cs *Collectives) compare(mine *checking.Call, failed error) error {
	if mine.Call.IsWithin() {
		return failed // the call that it is a part of has been compared
	}
	return cs.compareCall(cs.main.beside(checkTag, mine.Call.Within()), mine, failed)
}

// differenceClasses are the error classes of what calls differ in.
var differenceClasses = checking.Classes{checking.Calls: ErrOther, checking.Roots: ErrRoot, checking.Types: ErrType,
	checking.Ops: ErrOp, checking.Counts: ErrCount}

// compareCall is the exchange with the messages of g. Those of an Idup and of an immediate collective
// have tags of their own.
func (cs *Collectives) compareCall(g *collState, mine *checking.Call, failed error) error {
	c, op := cs.comm, mine.Call.String()
	if mine.Where == "" {
		c.engine.Recording().Called(mine.Call)
		mine.Where = callPosition()
	}
	if failed != nil {
		mine.Failure = &checking.Verdict{Class: int32(c.proc.classify(failed)), Text: failed.Error()}
	}
	if len(g.peers) == 1 {
		return failed
	}
	v, err := g.exchangeCalls(mine)
	switch {
	case failed != nil:
		return c.joinError(op, failed, err)
	case err != nil:
		return c.wrapError(op, err)
	case v != nil:
		return c.newError(op, Class(v.Class), v)
	}
	return nil
}

// checkCall compares a call without arguments if calls are checked. A call that collState.begin will
// refuse is not compared. If another collective is in progress, its comparison may be using the same
// tag. After a failure no rank may answer.
func (cs *Collectives) checkCall(call perf.Op) error {
	if !cs.comm.checks || atomic.LoadUint64(&cs.main.busy) != 0 || cs.main.failed.Load() != nil {
		return nil
	}
	return cs.compare(&checking.Call{Call: call, Idups: cs.idupSeq.Load()}, nil)
}

// exchangeCalls sends this rank's call to rank 0 and returns the verdict; nil if all calls agree.
// Only rank 0 compares, so its verdict is that of all ranks, and they fail together.
func (g *collState) exchangeCalls(mine *checking.Call) (*checking.Verdict, error) {
	if g.rank != 0 {
		b, err := json.Marshal(mine)
		if err == nil {
			err = g.Send(0, b)
		}
		if err != nil {
			return nil, err
		}
		return receiveJSON[checking.Verdict](g, 0)
	}
	calls := []*checking.Call{mine}
	for rank := 1; rank < len(g.peers); rank++ {
		other, err := receiveJSON[checking.Call](g, rank)
		if err != nil {
			return nil, err
		}
		calls = append(calls, other)
	}
	v := checking.Judge(calls, g.peers, &differenceClasses)
	var b []byte
	if v != nil {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	for rank := 1; rank < len(g.peers); rank++ {
		if err := g.Send(rank, b); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// receiveJSON receives a value of any length from a rank; nil if it is empty.
func receiveJSON[T any](g *collState, rank int) (*T, error) {
	from := g.recvRoute(rank)
	st, _, err := g.engine.Probes().Probe(context.Background(), from, true)
	if err != nil || st.Bytes == 0 {
		if err == nil {
			_, err = g.engine.Recv(from, nil)
		}
		return nil, g.check(err)
	}
	b := make([]byte, st.Bytes)
	if _, err := g.engine.Recv(from, b); err != nil {
		return nil, g.check(err)
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("rank %d sent an invalid description of its call: %w", rank, err)
	}
	return v, nil
}

// describeOp returns an operation as it is compared. Functions of the user cannot be compared.
func describeOp(o Op) string {
	switch o := o.(type) {
	case nil:
		return "none"
	case Predefined:
		return o.String()
	case *userOp:
		if o.commutative {
			return "a commutative operation of the program"
		}
		return "an operation of the program"
	}
	return ""
}

// newCollCall returns the description of a collective on elements.
func (cs *Collectives) newCollCall(call perf.Op, k Elements, bytes int) *checking.Call {
	x := &checking.Call{Call: call, Type: k.kind, Count: bytes / k.Size(), Idups: cs.idupSeq.Load()}
	switch {
	case k.data != nil && k.data.parts != nil:
		x.Parts = k.data.parts
	case k.data != nil:
		x.Name, x.Data = k.data.name, k.signature(bytes)
	}
	return x
}
