package core

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// An immediate is the proto.Program of the schedule that does its steps.

// shortStep is the number of bytes up to which a step copies or combines while it holds the
// engine's lock. A longer step releases the lock, so that other goroutines need not wait for its
// end. The value was not measured. A step over shared memory holds the lock as well: see
// coll.ShmImmediate.Advance.
const shortStep = 4 << 10

// Step returns a step of the plan.
func (x *immediate) Step(i int) (s proto.Step, ok bool) {
	if i == len(x.plan.Steps) {
		return s, false
	}
	g := &x.of.main
	switch p := &x.plan.Steps[i]; {
	case p.Kind == coll.StepSend:
		return proto.Step{Kind: proto.StepSend, Peer: g.peers[p.Peer], Rank: g.rank, Buf: p.A}, true
	case p.Kind == coll.StepRecv:
		return proto.Step{Kind: proto.StepRecv, Peer: g.peers[p.Peer], Rank: int32(p.Peer), Buf: p.Dst}, true
	case p.Kind == coll.StepWait:
		return proto.Step{Kind: proto.StepWait}, true
	case p.Kind == coll.StepShared && x.waitsFor < 0:
		return proto.Step{Kind: proto.StepPoll, Peer: proto.ProcNull, Queue: p.Peer, Sleepers: g.shm.sleepers}, true
	case p.Kind == coll.StepShared:
		r := g.shm.ranks[x.waitsFor]
		return proto.Step{Kind: proto.StepPoll, Peer: g.peers[r], Rank: r, Queue: p.Peer, Sleepers: g.shm.sleepers}, true
	case p.Kind == coll.StepDirect:
		return proto.Step{Kind: proto.StepLong}, true
	// A function of the program must run without the engine's lock: it may call this package.
	case len(p.Dst) > shortStep, p.Kind == coll.StepCall, p.Kind == coll.StepCombine && x.operation.Foreign:
		return proto.Step{Kind: proto.StepLong, Buf: p.Dst}, true
	default:
		return proto.Step{Kind: proto.StepShort, Buf: p.Dst}, true
	}
}

// Do copies, combines or calls. If the program's function panics, that is the error of the
// collective.
func (x *immediate) Do(i int) (err error) {
	if x.operation.Foreign {
		defer recoverPanic(&err)
	}
	switch s := &x.plan.Steps[i]; s.Kind {
	case coll.StepShared:
		return x.doShared(s.Peer)
	case coll.StepDirect:
		if !x.plan.Shared(s.Peer).Copy(&x.plan.SharedCalls[s.Peer]) {
			return proto.ErrPartDone
		}
	default:
		x.plan.Do(s)
	}
	return nil
}

// doShared does as much as is possible of a step of call i over shared memory. It is called with
// the engine's lock held.
func (x *immediate) doShared(i int) error {
	g := &x.of.main
	// After a failure the ranks no longer advance their parts, so a wait for one of them might
	// never end.
	if failed := g.failed.Load(); failed != nil {
		return *failed
	}
	waitsFor, done, err := x.plan.Shared(i).Advance(&x.plan.SharedCalls[i])
	x.waitsFor = waitsFor
	switch {
	case err != nil || done:
		return err
	case waitsFor == coll.PartDone:
		return proto.ErrPartDone
	// The rank may have left because of a mismatch, and then it has recorded it before.
	case waitsFor >= 0:
		if m := g.recordedMismatch(); m != nil {
			return m
		}
	}
	return proto.ErrNotYet
}

// allocateShared allocates the memory into which the collective writes data for other ranks. It is
// called without a lock, since the kernel may take long.
func (x *immediate) allocateShared() {
	for i := range x.plan.SharedCalls {
		if call := &x.plan.SharedCalls[i]; call.Used() {
			x.plan.Shared(i).Allocate(call)
		}
	}
}

// stepWords is how the steps of immediate collectives publish words of the memory that ranks share.
type stepWords struct{ g *collState }

// Publish stores a word and wakes the ranks that sleep until it changes.
func (s stepWords) Publish(w *uint64, v uint64) {
	g := s.g
	if g.store(w, v); atomic.LoadUint64(g.shm.sleepers) != 0 {
		for _, r := range g.shm.ranks {
			if r != g.rank {
				g.engine.Segments().WakeInStep(int(g.peers[r]))
			}
		}
	}
}

// Differ returns the error that the calls of two ranks differ. The collective ends with it; see
// Ended.
func (s stepWords) Differ(rank int, mine, other uint64) error {
	return s.g.recordMismatch(int(s.g.shm.ranks[rank]), mine, other)
}

// Started counts the start.
func (x *immediate) Started() { x.of.started.add(x.tag, x.call) }

// recoverPanic makes a panic of a function of the program an error.
func recoverPanic(err *error) {
	if v := recover(); v != nil {
		*err = &attrs.PanicError{Value: v, Stack: debug.Stack()}
	}
}

// errImmediate is the error of later collectives if there is no better one.
var errImmediate = errors.New("an immediate collective of this communicator has failed")

// Abandoned makes collectives of the communicator fail, so that this one is not advanced any more.
// Ranks that still read its buffers learn of it.
func (x *immediate) Abandoned(err error) {
	x.of.main.markFailed(err)
	x.failShared()
}

// failShared tells the ranks that share memory that this collective has failed.
func (x *immediate) failShared() {
	for i := range x.plan.SharedCalls {
		if call := &x.plan.SharedCalls[i]; call.Used() {
			x.plan.Shared(i).Fail(call)
		}
	}
}

// Ended records why no collective can succeed any more, if this one has failed.
func (x *immediate) Ended(err error) {
	if err != nil {
		// ErrContextEnded means that the context had ended before: the memory may be unmapped. With
		// any other error either the memory is still mapped, or a message was in progress, and so
		// no call that copies directly.
		if !errors.Is(err, proto.ErrContextEnded) {
			x.failShared()
		}
		if !errors.Is(err, proto.ErrFailed) {
			err = join(errImmediate, err)
		}
		x.of.main.markFailed(err)
	}
	if !x.persistent {
		x.of.immediates.put(x)
	}
}
