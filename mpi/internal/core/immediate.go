package core

import (
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// An immediate or persistent collective runs the algorithm of the blocking one on a coll.Plan, which records its steps. The
// engine then does the steps as a proto.Schedule, whenever it makes progress. Each has messages with a tag of its own, so any
// number of them, and a blocking collective, can be in progress on a communicator.
//
// Short ones are one step over shared memory instead, a coll.ShmImmediate, if all ranks share memory.
//
// When calls are checked, a goroutine does the steps of an immediate collective instead, after it has compared the calls, as for
// an Idup. A persistent one is compared by the call that creates its request, which may block.

// immediateTag is set in the tags of immediate collectives. See checkTag for the others.
const immediateTag = 1 << 28

// immediates are the immediate collectives of a communicator.
type immediates struct {
	mu      sync.Mutex
	started int32      // number of calls so far
	free    *immediate // free list
}

// immediate is an immediate or persistent collective. An immediate one is used again when it has ended.
type immediate struct {
	comm       *Comm
	plan       coll.Plan
	operation  coll.Operation
	schedule   proto.Schedule
	call       perf.Op
	waitsFor   int // the rank for which a step over shared memory waits; negative: none
	persistent bool
	next       *immediate // free list
}

// shortStep is the number of bytes up to which a step copies or combines while it holds the engine's lock. A longer step releases
// the lock, so that other goroutines need not wait for its end. The value was not measured.
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
	x.plan.Reset(int(c.coll.rank), len(c.coll.peers), c.proc.table)
	return x
}

// put ends the use of an immediate. It keeps no buffers of the program.
func (l *immediates) put(x *immediate) {
	x.plan.Reset(0, 0, nil)
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

// Start says how a collective is started.
type Start uint8

// The ways to start a collective.
const (
	Now      Start = iota // the call is an immediate collective
	ByStart               // the call returns a persistent request, which Request.Start starts
	Blocking              // the call is a blocking collective
)

// Name returns the name of a call whose immediate form is call.
func (s Start) Name(call perf.Op) string {
	switch s {
	case Blocking:
		return call.Blocking().String()
	case ByStart:
		return call.Blocking().String() + "Init"
	}
	return call.String()
}

// collMode says how a collective is called.
type collMode struct {
	call  perf.Op  // unless it blocks, the immediate form
	req   *Request // is set to the request; not used if the call blocks
	start Start
	views *packing // of views; nil if there are none
}

// modeOf returns the mode of a call whose immediate form is call.
func modeOf(call perf.Op, start Start, req *Request, views *packing) collMode {
	if start == Blocking {
		call = call.Blocking()
	}
	return collMode{call, req, start, views}
}

// name returns the name of the call.
func (m collMode) name() string {
	if m.start == ByStart {
		return m.start.Name(m.call)
	}
	return m.call.String()
}

// collFunc is the algorithm of a collective.
type collFunc func(coll.Peer, *coll.Operation) error

// startCollective starts a collective that does not block, of which this rank sends or receives n bytes. check checks the
// arguments, and sets the operation if there is one. describe describes the call, if calls are checked. run is the algorithm,
// which records its steps. None of the functions is kept, so that they need no memory of the heap.
func (c *Comm) startCollective(m collMode, n int, check func(*coll.Operation) error, describe func() *collCall,
	run collFunc,
) error {
	if err := c.checkUsable(m.name()); err != nil {
		return err
	}
	if failed := c.coll.failed.Load(); failed != nil {
		return c.wrapError(m.name(), *failed)
	}
	x := c.immediates.take(c)
	err := check(&x.operation)
	if x.call, x.waitsFor = m.call, -1; m.start == Now && !c.checks && !x.operation.Foreign && !c.coll.deterministic.Load() {
		x.plan.Shared = c.coll.shm.immediate.Load()
	}
	if c.checks && m.start == ByStart {
		err = c.compareCall(describe(), err)
	}
	if err == nil {
		err = c.wrapError(m.name(), m.views.run(&x.plan, &x.operation, run))
	}
	if c.checks && m.start == Now {
		return c.startChecked(m, x, n, describe(), err)
	}
	if err != nil {
		c.immediates.put(x)
		return err
	}
	on := proto.Route{Context: c.contextID | collectiveBit, Match: proto.Match{Tag: c.immediates.nextTag()}, Op: m.call}
	if x.persistent = m.start == ByStart; x.persistent {
		*m.req = Request{c.engine.ScheduleInit(on, n, x, &x.schedule)}
		return nil
	}
	*m.req = Request{c.engine.StartSchedule(on, n, x, &x.schedule)}
	return nil
}

// startChecked starts an immediate collective whose call is compared with those of the other ranks. failed is the error that this
// rank has found; the others learn of it.
func (c *Comm) startChecked(m collMode, x *immediate, n int, mine *collCall, failed error) error {
	call := m.call
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
			err = c.wrapError(call.String(), x.callChecked(g))
		}
		// The request is active: a program can neither cancel nor free it.
		_ = c.engine.CompleteGrequest(r.h, err)
	})
	if failed != nil { // the goroutine still reports it to the other ranks
		return c.joinError(call.String(), failed, c.engine.Abandon(r.h))
	}
	*m.req = r
	return nil
}

// callChecked does the steps of the plan with the messages of g. If it fails, no later collective succeeds.
func (x *immediate) callChecked(g *collState) (err error) {
	defer func() {
		if err != nil {
			g.fail(err)
		}
	}()
	defer recoverPanic(&err)
	var started []coll.Handle
	for i := range x.plan.Steps {
		var h coll.Handle
		switch s := &x.plan.Steps[i]; s.Kind {
		case coll.StepSend:
			h, err = g.Isend(s.Peer, s.A)
			started = append(started, h)
		case coll.StepRecv:
			h, err = g.Irecv(s.Peer, s.Dst)
			started = append(started, h)
		case coll.StepWait:
			err = g.Waitall(started)
			started = started[:0]
		default:
			x.plan.Do(s)
		}
		if err != nil {
			return err
		}
	}
	return g.Waitall(started)
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
	case p.Kind == coll.StepShared && x.waitsFor < 0:
		return proto.Step{Kind: proto.StepPoll, Peer: proto.ProcNull, Sleepers: g.shm.sleepers}, true
	case p.Kind == coll.StepShared:
		return proto.Step{Kind: proto.StepPoll, Peer: g.peers[x.waitsFor], Rank: int32(x.waitsFor), Sleepers: g.shm.sleepers}, true
	case len(p.Dst) > shortStep, p.Kind == coll.StepCall, p.Kind == coll.StepCombine && x.operation.Foreign:
		return proto.Step{Kind: proto.StepLong, Buf: p.Dst}, true
	default:
		return proto.Step{Kind: proto.StepShort, Buf: p.Dst}, true
	}
}

// Do copies, combines or calls. If the program's function panics, that is the error of the collective.
func (x *immediate) Do(i int) (err error) {
	if x.operation.Foreign {
		defer recoverPanic(&err)
	}
	s := &x.plan.Steps[i]
	if s.Kind == coll.StepShared {
		return x.doShared()
	}
	x.plan.Do(s)
	return nil
}

// doShared does as much as is possible of the part of the collective that is done over shared memory. It is called with the
// engine's lock held.
func (x *immediate) doShared() error {
	g, f, call := &x.comm.coll, x.plan.Shared, &x.plan.SharedCall
	if failed := g.failed.Load(); failed != nil {
		return *failed
	}
	if !call.Begun() {
		f.Begin(call, callShape{root: call.Root}.pack(x.call, call.Bytes))
	}
	waitsFor, ended, err := f.Advance(call)
	x.waitsFor = waitsFor
	switch {
	case err != nil || ended:
		return err
	case waitsFor >= 0:
		if m := g.recordedMismatch(); m != nil {
			return m
		}
	}
	return proto.ErrNotYet
}

// stepWords is how the steps of immediate collectives publish words of the memory that all ranks share.
type stepWords struct{ g *collState }

// Publish stores a word and wakes the ranks that sleep until it changes.
func (s stepWords) Publish(w *uint64, v uint64) {
	g := s.g
	atomic.StoreUint64(w, v) // before sleepers is read, as in collState.Publish
	if atomic.LoadUint64(g.shm.sleepers) != 0 {
		for i, p := range g.peers {
			if i != int(g.rank) {
				g.comm.engine.WakePeerInStep(int(p))
			}
		}
	}
}

// Differ returns the error that the calls of two ranks differ. The collective ends with it; see Ended.
func (s stepWords) Differ(rank int, mine, other uint64) error {
	return s.g.recordMismatch(rank, mine, other)
}

// recoverPanic makes a panic of a function of the program an error.
func recoverPanic(err *error) {
	if v := recover(); v != nil {
		*err = &attrs.PanicError{Value: v, Stack: debug.Stack()}
	}
}

// errImmediate is the error of later collectives if there is no better one.
var errImmediate = errors.New("an immediate collective of this communicator has failed")

// Abandoned does nothing: a program that has failed does not use the buffers again.
func (x *immediate) Abandoned(error) {}

// Ended records why no collective can succeed any more, if this one has failed.
func (x *immediate) Ended(err error) {
	if err != nil {
		if !errors.Is(err, proto.ErrFailed) {
			err = join(errImmediate, err)
		}
		x.comm.coll.markFailed(err)
	}
	if !x.persistent {
		x.comm.immediates.put(x)
	}
}

// Ibarrier starts a Barrier.
func (c *Comm) Ibarrier(start Start) (r Request, err error) {
	m := collMode{call: perf.Ibarrier, req: &r, start: start}
	err = c.startCollective(m, 0, func(*coll.Operation) error { return nil },
		func() *collCall { return &collCall{Call: m.call} },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Barrier(p) })
	return r, err
}

// Ibcast starts a Bcast.
func (c *Comm) Ibcast(start Start, b []byte, k Elements, root int) (r Request, err error) {
	err = c.ibcast(collMode{call: perf.Ibcast, req: &r, start: start}, b, k, root)
	return r, err
}

func (c *Comm) ibcast(m collMode, b []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interBcast(m, b, root)
	}
	return c.startCollective(m, len(b), func(*coll.Operation) error { return c.checkRoot(m.name(), root) },
		func() *collCall { return c.newCollCall(m.call, k, len(b)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Bcast(p, b, root) })
}

// Igather starts a Gather.
func (c *Comm) Igather(start Start, dst, src []byte, k Elements, root int) (r Request, err error) {
	err = c.igather(collMode{call: perf.Igather, req: &r, start: start}, dst, src, k, root)
	return r, err
}

func (c *Comm) igather(m collMode, dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGather(m, dst, src, k, root)
	}
	return c.startCollective(m, len(src), func(*coll.Operation) (err error) {
		dst, src, err = c.gatherBlocks(m.name(), dst, src, k, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Gather(p, dst, src, root) })
}

// Igatherv starts a Gatherv.
func (c *Comm) Igatherv(start Start, dst []byte, counts, displs []int, src []byte, k Elements, root int) (r Request, err error) {
	err = c.igatherv(collMode{call: perf.Igatherv, req: &r, start: start}, dst, counts, displs, src, k, root)
	return r, err
}

func (c *Comm) igatherv(m collMode, dst []byte, counts, displs []int, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGatherv(m, dst, counts, displs, src, k, root)
	}
	var at coll.Layout
	return c.startCollective(m, len(src), func(*coll.Operation) (err error) {
		at, src, err = c.partsAtRoot(m.name(), dst, counts, displs, src, k, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)).rooted(root).blocks(at.Counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Gatherv(p, dst, at, src, root) })
}

// Iscatter starts a Scatter.
func (c *Comm) Iscatter(start Start, dst, src []byte, k Elements, root int) (r Request, err error) {
	err = c.iscatter(collMode{call: perf.Iscatter, req: &r, start: start}, dst, src, k, root)
	return r, err
}

func (c *Comm) iscatter(m collMode, dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interScatter(m, dst, src, k, root)
	}
	return c.startCollective(m, len(dst), func(*coll.Operation) (err error) {
		src, dst, err = c.gatherBlocks(m.name(), src, dst, k, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(dst)).rooted(root) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Scatter(p, dst, src, root) })
}

// Iscatterv starts a Scatterv.
func (c *Comm) Iscatterv(start Start, dst, src []byte, counts, displs []int, k Elements, root int) (r Request, err error) {
	err = c.iscatterv(collMode{call: perf.Iscatterv, req: &r, start: start}, dst, src, counts, displs, k, root)
	return r, err
}

func (c *Comm) iscatterv(m collMode, dst, src []byte, counts, displs []int, k Elements, root int) error {
	if c.isInter() {
		return c.interScatterv(m, dst, src, counts, displs, k, root)
	}
	var at coll.Layout
	return c.startCollective(m, len(dst), func(*coll.Operation) (err error) {
		at, dst, err = c.partsAtRoot(m.name(), src, counts, displs, dst, k, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(dst)).rooted(root).blocks(at.Counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Scatterv(p, dst, src, at, root) })
}

// Iallgather starts an Allgather.
func (c *Comm) Iallgather(start Start, dst, src []byte, k Elements) (r Request, err error) {
	err = c.iallgather(collMode{call: perf.Iallgather, req: &r, start: start}, dst, src, k)
	return r, err
}

func (c *Comm) iallgather(m collMode, dst, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAllgather(m, dst, src, k)
	}
	return c.startCollective(m, len(src), func(*coll.Operation) (err error) {
		src, err = c.ownBlock(m.name(), dst, src, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Allgather(p, dst, src) })
}

// Iallgatherv starts an Allgatherv.
func (c *Comm) Iallgatherv(start Start, dst []byte, counts, displs []int, src []byte, k Elements) (r Request, err error) {
	err = c.iallgatherv(collMode{call: perf.Iallgatherv, req: &r, start: start}, dst, counts, displs, src, k)
	return r, err
}

func (c *Comm) iallgatherv(m collMode, dst []byte, counts, displs []int, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAllgatherv(m, dst, counts, displs, src, k)
	}
	var at coll.Layout
	return c.startCollective(m, len(src), func(*coll.Operation) (err error) {
		at, src, err = c.ownPartAtRoot(m.name(), dst, counts, displs, src, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, 0).blocks(counts, nil) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Allgatherv(p, dst, at, src) })
}

// Ialltoall starts an Alltoall.
func (c *Comm) Ialltoall(start Start, dst, src []byte, k Elements) (r Request, err error) {
	err = c.ialltoall(collMode{call: perf.Ialltoall, req: &r, start: start}, dst, src, k)
	return r, err
}

func (c *Comm) ialltoall(m collMode, dst, src []byte, k Elements) error {
	if c.isInter() {
		return c.interAlltoall(m, dst, src, k)
	}
	return c.startCollective(m, len(src), func(*coll.Operation) error { return c.alltoallBuffers(m.name(), dst, src, k) },
		func() *collCall { return c.newCollCall(m.call, k, len(src)/len(c.peers)) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Alltoall(p, dst, src) })
}

// Ialltoallv starts an Alltoallv.
func (c *Comm) Ialltoallv(start Start, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, k Elements) (
	r Request, err error,
) {
	m := collMode{call: perf.Ialltoallv, req: &r, start: start}
	err = c.ialltoallv(m, dst, rcounts, rdispls, src, scounts, sdispls, k)
	return r, err
}

func (c *Comm) ialltoallv(m collMode, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, k Elements) error {
	if c.isInter() {
		return c.interAlltoallv(m, dst, rcounts, rdispls, src, scounts, sdispls, k)
	}
	var to, from coll.Layout
	return c.startCollective(m, len(src), func(*coll.Operation) (err error) {
		to, from, err = c.alltoallLayouts(m.name(), dst, rcounts, rdispls, src, scounts, sdispls, k.Size())
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, 0).blocks(from.Counts, to.Counts) },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Alltoallv(p, dst, to, src, from) })
}

// Ireduce starts a Reduce.
func (c *Comm) Ireduce(start Start, dst, src []byte, k Elements, o Op, root int) (r Request, err error) {
	m := collMode{call: perf.Ireduce, req: &r, start: start}
	if c.isInter() {
		err = c.interReduce(m, dst, src, k, o, root)
		return r, err
	}
	err = c.startCollective(m, len(src), func(x *coll.Operation) (err error) {
		dst, err = c.reduceBuffers(x, m.name(), dst, src, k, o, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)).rooted(root).reducing(o) },
		func(p coll.Peer, x *coll.Operation) error { return coll.Reduce(p, dst, src, x, root) })
	return r, err
}

// Iallreduce starts an Allreduce.
func (c *Comm) Iallreduce(start Start, dst, src []byte, k Elements, o Op) (r Request, err error) {
	m := collMode{call: perf.Iallreduce, req: &r, start: start}
	if c.isInter() {
		err = c.interAllreduce(m, dst, src, k, o)
		return r, err
	}
	err = c.startReduction(m, coll.Allreduce, dst, src, k, o)
	return r, err
}

// Iscan starts a Scan.
func (c *Comm) Iscan(start Start, dst, src []byte, k Elements, o Op) (r Request, err error) {
	err = c.startPrefix(collMode{call: perf.Iscan, req: &r, start: start}, coll.Scan, dst, src, k, o)
	return r, err
}

// Iexscan starts an Exscan.
func (c *Comm) Iexscan(start Start, dst, src []byte, k Elements, o Op) (r Request, err error) {
	err = c.startPrefix(collMode{call: perf.Iexscan, req: &r, start: start}, coll.Exscan, dst, src, k, o)
	return r, err
}

// startPrefix is startReduction for a call that is not defined on intercommunicators.
func (c *Comm) startPrefix(m collMode, f reduceFunc, dst, src []byte, k Elements, o Op) error {
	if c.isInter() {
		return c.newError(m.name(), ErrComm, errInter)
	}
	return c.startReduction(m, f, dst, src, k, o)
}

// reduceFunc is a reduction of package coll with results at all ranks.
type reduceFunc func(p coll.Peer, dst, src []byte, op *coll.Operation) error

func (c *Comm) startReduction(m collMode, f reduceFunc, dst, src []byte, k Elements, o Op) error {
	return c.startCollective(m, len(src), func(x *coll.Operation) error {
		return c.sameBuffers(x, m.name(), dst, src, k, o)
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)).reducing(o) },
		func(p coll.Peer, x *coll.Operation) error { return f(p, dst, src, x) })
}

// IreduceScatter starts a ReduceScatter.
func (c *Comm) IreduceScatter(start Start, dst, src []byte, counts []int, k Elements, o Op) (r Request, err error) {
	err = c.startReduceScatter(collMode{call: perf.IreduceScatter, req: &r, start: start}, dst, src, counts, k, o)
	return r, err
}

// IreduceScatterBlock starts a ReduceScatterBlock.
func (c *Comm) IreduceScatterBlock(start Start, dst, src []byte, k Elements, o Op) (r Request, err error) {
	m := collMode{call: perf.IreduceScatterBlock, req: &r, start: start}
	counts, err := c.equalCounts(m.name(), src, k)
	if err == nil {
		err = c.startReduceScatter(m, dst, src, counts, k, o)
	}
	return r, err
}

func (c *Comm) startReduceScatter(m collMode, dst, src []byte, counts []int, k Elements, o Op) error {
	if c.isInter() {
		return c.interReduceScatter(m, dst, src, counts, k, o)
	}
	return c.startCollective(m, len(src), func(x *coll.Operation) (err error) {
		if dst, err = c.ownResult(m.name(), dst, src, counts, k); err != nil {
			return err
		}
		return c.operationOf(x, m.name(), k, o)
	}, func() *collCall { return c.newCollCall(m.call, k, 0).reducing(o).blocks(counts, nil) },
		func(p coll.Peer, x *coll.Operation) error { return coll.ReduceScatter(p, dst, src, counts, x) })
}
