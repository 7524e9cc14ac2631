package core

import (
	"errors"
	"runtime/debug"
	"sync"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// An immediate collective runs the algorithm of the blocking one on a coll.Plan, which records its steps. The engine then does
// the steps as a proto.Schedule, whenever it makes progress. Each has messages with a tag of its own, so any number of them, and
// a blocking collective, can be in progress on a communicator.
//
// When calls are checked, a goroutine runs the blocking algorithm instead, after it has compared the calls, as for an Idup.

// immediateTag is set in the tags of immediate collectives. See checkTag for the others.
const immediateTag = 1 << 28

// immediates are the immediate collectives of a communicator.
type immediates struct {
	mu      sync.Mutex
	started int32      // number of calls so far
	free    *immediate // free list
}

// immediate is an immediate collective. It is used again when it has ended.
type immediate struct {
	comm      *Comm
	plan      coll.Plan
	operation coll.Operation
	schedule  proto.Schedule
	next      *immediate // free list
}

// shortStep is the number of bytes up to which a step copies or combines while it holds the engine's lock. That takes less time
// than to release and acquire the lock would take other goroutines.
const shortStep = 4 << 10

// take returns an immediate without steps.
func (l *immediates) take(c *Comm) *immediate {
	l.mu.Lock()
	x := l.free
	if x != nil {
		l.free = x.next
	}
	l.mu.Unlock()
	if x == nil {
		x = &immediate{comm: c}
	}
	x.plan.Reset(int(c.coll.rank), len(c.coll.peers))
	return x
}

// put ends the use of an immediate. It keeps no buffers of the program.
func (l *immediates) put(x *immediate) {
	x.plan.Reset(0, 0)
	x.operation = coll.Operation{}
	l.mu.Lock()
	x.next, l.free = l.free, x
	l.mu.Unlock()
}

// nextTag returns the tag of the next call. All ranks make the calls in the same order.
func (l *immediates) nextTag() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	return l.started&(immediateTag-1) | immediateTag
}

// startCollective starts an immediate collective, of which this rank sends or receives n bytes. check checks the arguments, and
// sets the operation if there is one. describe describes the call, if calls are checked. run is the algorithm.
func (c *Comm) startCollective(call perf.Op, n int, check func(*coll.Operation) error, describe func() *collCall,
	run func(coll.Peer, *coll.Operation) error,
) (Request, error) {
	if err := c.checkUsable(call.String()); err != nil {
		return Request{}, err
	}
	if failed := c.coll.failed.Load(); failed != nil {
		return Request{}, c.wrapError(call.String(), *failed)
	}
	x := c.immediates.take(c)
	err := check(&x.operation)
	if c.checks {
		return c.startChecked(x, n, describe(), err, run)
	}
	if err == nil {
		err = c.wrapError(call.String(), run(&x.plan, &x.operation))
	}
	if err != nil {
		c.immediates.put(x)
		return Request{}, err
	}
	on := proto.Route{Context: c.contextID | collectiveBit, Match: proto.Match{Tag: c.immediates.nextTag()}, Op: call}
	return Request{c.engine.StartSchedule(on, n, x, &x.schedule)}, nil
}

// startChecked starts an immediate collective whose call is compared with those of the other ranks. failed is the error that this
// rank has found; the others learn of it.
func (c *Comm) startChecked(x *immediate, n int, mine *collCall, failed error, run func(coll.Peer, *coll.Operation) error) (
	Request, error,
) {
	call := mine.Call
	g := &collState{tag: c.immediates.nextTag(), call: call.Within()}
	g.init(c, c.coll.peers, c.coll.rank)
	c.engine.Called(call)
	mine.Where = callPosition()
	began := c.engine.BeginOp(call, n)
	r := Request{c.engine.StartGrequest()}
	c.engine.EndOp(call, n, began)
	c.idups.Go(func() {
		defer c.immediates.put(x)
		err := g.compareCall(mine, failed)
		if err == nil {
			err = c.wrapError(call.String(), x.callChecked(g, run))
		}
		// The request is active: a program can neither cancel nor free it.
		_ = c.engine.CompleteGrequest(r.h, err)
	})
	if failed != nil { // the goroutine still reports it to the other ranks
		return Request{}, c.joinError(call.String(), failed, c.engine.Abandon(r.h))
	}
	return r, nil
}

// callChecked runs the algorithm with the messages of g. If it fails, no later collective succeeds.
func (x *immediate) callChecked(g *collState, run func(coll.Peer, *coll.Operation) error) (err error) {
	defer func() {
		if err != nil {
			g.fail(err)
		}
	}()
	defer recoverPanic(&err)
	return run(g, &x.operation)
}

// Step returns a step of the plan.
func (x *immediate) Step(i int) (s proto.Step, ok bool) {
	if i == len(x.plan.Steps) {
		return s, false
	}
	g := &x.comm.coll
	switch p := &x.plan.Steps[i]; {
	case p.Kind == coll.StepSend:
		return proto.Step{Kind: proto.StepSend, Peer: g.peers[p.Peer], Rank: g.rank, Buf: p.A}, true
	case p.Kind == coll.StepRecv:
		return proto.Step{Kind: proto.StepRecv, Peer: g.peers[p.Peer], Rank: int32(p.Peer), Buf: p.Dst}, true
	case p.Kind == coll.StepWait:
		return proto.Step{Kind: proto.StepWait}, true
	case len(p.Dst) > shortStep, p.Kind == coll.StepCombine && x.operation.Foreign:
		return proto.Step{Kind: proto.StepLong}, true
	}
	return proto.Step{Kind: proto.StepShort}, true
}

// Do copies or combines. If the program's function panics, that is the error of the collective.
func (x *immediate) Do(i int) (err error) {
	if x.operation.Foreign {
		defer recoverPanic(&err)
	}
	x.plan.Do(&x.plan.Steps[i])
	return nil
}

// recoverPanic makes a panic of a function of the program an error.
func recoverPanic(err *error) {
	if v := recover(); v != nil {
		*err = &attrs.PanicError{Value: v, Stack: debug.Stack()}
	}
}

// errImmediate is the error of later collectives if there is no better one.
var errImmediate = errors.New("an immediate collective of this communicator has failed")

// Ended records why no collective can succeed any more, if this one has failed.
func (x *immediate) Ended(err error) {
	if err != nil {
		if !errors.Is(err, proto.ErrFailed) {
			err = join(errImmediate, err)
		}
		x.comm.coll.markFailed(err)
	}
	x.comm.immediates.put(x)
}

// Ibarrier starts a Barrier.
func (c *Comm) Ibarrier() (Request, error) {
	return c.startCollective(perf.Ibarrier, 0, func(*coll.Operation) error { return nil },
		func() *collCall { return &collCall{Call: perf.Ibarrier} },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Barrier(p) })
}

// Ibcast starts a Bcast.
func (c *Comm) Ibcast(b []byte, k Elements, root int) (r Request, err error) {
	const call = perf.Ibcast
	if c.isInter() {
		err = c.interBcast(collMode{call, &r}, b, root)
		return r, err
	}
	return c.startCollective(call, len(b), func(*coll.Operation) error { return c.checkRoot(call.String(), root) },
		func() *collCall { return c.newCollCall(call, k, len(b)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Bcast(p, b, root) })
}

// Igather starts a Gather.
func (c *Comm) Igather(dst, src []byte, k Elements, root int) (r Request, err error) {
	const call = perf.Igather
	if c.isInter() {
		err = c.interGather(collMode{call, &r}, dst, src, k, root)
		return r, err
	}
	return c.startCollective(call, len(src), func(*coll.Operation) (err error) {
		dst, src, err = c.gatherBlocks(call.String(), dst, src, k, root)
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(src)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Gather(p, dst, src, root) })
}

// Igatherv starts a Gatherv.
func (c *Comm) Igatherv(dst []byte, counts, displs []int, src []byte, k Elements, root int) (r Request, err error) {
	const call = perf.Igatherv
	if c.isInter() {
		err = c.interGatherv(collMode{call, &r}, dst, counts, displs, src, k, root)
		return r, err
	}
	var at coll.Layout
	return c.startCollective(call, len(src), func(*coll.Operation) (err error) {
		at, src, err = c.partsAtRoot(call.String(), dst, counts, displs, src, k, root)
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(src)).rooted(root).blocks(at.Counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Gatherv(p, dst, at, src, root) })
}

// Iscatter starts a Scatter.
func (c *Comm) Iscatter(dst, src []byte, k Elements, root int) (r Request, err error) {
	const call = perf.Iscatter
	if c.isInter() {
		err = c.interScatter(collMode{call, &r}, dst, src, k, root)
		return r, err
	}
	return c.startCollective(call, len(dst), func(*coll.Operation) (err error) {
		src, dst, err = c.gatherBlocks(call.String(), src, dst, k, root)
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(dst)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Scatter(p, dst, src, root) })
}

// Iscatterv starts a Scatterv.
func (c *Comm) Iscatterv(dst, src []byte, counts, displs []int, k Elements, root int) (r Request, err error) {
	const call = perf.Iscatterv
	if c.isInter() {
		err = c.interScatterv(collMode{call, &r}, dst, src, counts, displs, k, root)
		return r, err
	}
	var at coll.Layout
	return c.startCollective(call, len(dst), func(*coll.Operation) (err error) {
		at, dst, err = c.partsAtRoot(call.String(), src, counts, displs, dst, k, root)
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(dst)).rooted(root).blocks(at.Counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Scatterv(p, dst, src, at, root) })
}

// Iallgather starts an Allgather.
func (c *Comm) Iallgather(dst, src []byte, k Elements) (r Request, err error) {
	const call = perf.Iallgather
	if c.isInter() {
		err = c.interAllgather(collMode{call, &r}, dst, src, k)
		return r, err
	}
	return c.startCollective(call, len(src), func(*coll.Operation) (err error) {
		src, err = c.ownBlock(call.String(), dst, src, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(src)) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Allgather(p, dst, src) })
}

// Iallgatherv starts an Allgatherv.
func (c *Comm) Iallgatherv(dst []byte, counts, displs []int, src []byte, k Elements) (r Request, err error) {
	const call = perf.Iallgatherv
	if c.isInter() {
		err = c.interAllgatherv(collMode{call, &r}, dst, counts, displs, src, k)
		return r, err
	}
	var at coll.Layout
	return c.startCollective(call, len(src), func(*coll.Operation) (err error) {
		at, src, err = c.ownPartAtRoot(call.String(), dst, counts, displs, src, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(call, k, 0).blocks(counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Allgatherv(p, dst, at, src) })
}

// Ialltoall starts an Alltoall.
func (c *Comm) Ialltoall(dst, src []byte, k Elements) (r Request, err error) {
	const call = perf.Ialltoall
	if c.isInter() {
		err = c.interAlltoall(collMode{call, &r}, dst, src, k)
		return r, err
	}
	return c.startCollective(call, len(src), func(*coll.Operation) error { return c.alltoallBuffers(call.String(), dst, src, k) },
		func() *collCall { return c.newCollCall(call, k, len(src)/len(c.peers)) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Alltoall(p, dst, src) })
}

// Ialltoallv starts an Alltoallv.
func (c *Comm) Ialltoallv(dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, k Elements) (
	r Request, err error,
) {
	const call = perf.Ialltoallv
	if c.isInter() {
		err = c.interAlltoallv(collMode{call, &r}, dst, rcounts, rdispls, src, scounts, sdispls, k)
		return r, err
	}
	var to, from coll.Layout
	return c.startCollective(call, len(src), func(*coll.Operation) (err error) {
		to, from, err = c.alltoallLayouts(call.String(), dst, rcounts, rdispls, src, scounts, sdispls, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(call, k, 0).blocks(from.Counts, to.Counts) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Alltoallv(p, dst, to, src, from) })
}

// Ireduce starts a Reduce.
func (c *Comm) Ireduce(dst, src []byte, k Elements, o Op, root int) (r Request, err error) {
	const call = perf.Ireduce
	if c.isInter() {
		err = c.interReduce(collMode{call, &r}, dst, src, k, o, root)
		return r, err
	}
	return c.startCollective(call, len(src), func(x *coll.Operation) (err error) {
		dst, err = c.reduceBuffers(x, call.String(), dst, src, k, o, root)
		return err
	}, func() *collCall { return c.newCollCall(call, k, len(src)).rooted(root).reducing(o) },
		func(p coll.Peer, x *coll.Operation) error { return coll.Reduce(p, dst, src, x, root) })
}

// Iallreduce starts an Allreduce.
func (c *Comm) Iallreduce(dst, src []byte, k Elements, o Op) (r Request, err error) {
	const call = perf.Iallreduce
	if c.isInter() {
		err = c.interAllreduce(collMode{call, &r}, dst, src, k, o)
		return r, err
	}
	return c.startReduction(call, coll.Allreduce, dst, src, k, o)
}

// Iscan starts a Scan.
func (c *Comm) Iscan(dst, src []byte, k Elements, o Op) (Request, error) {
	return c.startPrefix(perf.Iscan, coll.Scan, dst, src, k, o)
}

// Iexscan starts an Exscan.
func (c *Comm) Iexscan(dst, src []byte, k Elements, o Op) (Request, error) {
	return c.startPrefix(perf.Iexscan, coll.Exscan, dst, src, k, o)
}

// startPrefix is startReduction for a call that is not defined on intercommunicators.
func (c *Comm) startPrefix(call perf.Op, f reduceFunc, dst, src []byte, k Elements, o Op) (Request, error) {
	if c.isInter() {
		return Request{}, c.newError(call.String(), ErrComm, errInter)
	}
	return c.startReduction(call, f, dst, src, k, o)
}

// reduceFunc is a reduction of package coll with results at all ranks.
type reduceFunc func(p coll.Peer, dst, src []byte, op *coll.Operation) error

func (c *Comm) startReduction(call perf.Op, f reduceFunc, dst, src []byte, k Elements, o Op) (Request, error) {
	return c.startCollective(call, len(src), func(x *coll.Operation) error {
		return c.sameBuffers(x, call.String(), dst, src, k, o)
	}, func() *collCall { return c.newCollCall(call, k, len(src)).reducing(o) },
		func(p coll.Peer, x *coll.Operation) error { return f(p, dst, src, x) })
}

// IreduceScatter starts a ReduceScatter.
func (c *Comm) IreduceScatter(dst, src []byte, counts []int, k Elements, o Op) (r Request, err error) {
	const call = perf.IreduceScatter
	if c.isInter() {
		err = c.interReduceScatter(collMode{call, &r}, dst, src, counts, k, o)
		return r, err
	}
	return c.startCollective(call, len(src), func(x *coll.Operation) (err error) {
		if dst, err = c.ownResult(call.String(), dst, src, counts, k); err != nil {
			return err
		}
		return c.operationOf(x, call.String(), k, o)
	}, func() *collCall { return c.newCollCall(call, k, 0).reducing(o).blocks(counts, nil) },
		func(p coll.Peer, x *coll.Operation) error { return coll.ReduceScatter(p, dst, src, counts, x) })
}
