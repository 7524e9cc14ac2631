package core

import (
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// An immediate or persistent collective runs the algorithm of the blocking one on a coll.Plan, which records its steps. The
// engine then does the steps as a proto.Schedule, whenever it makes progress. Each has messages with a tag of its own, so any
// number of them, and a blocking collective, can be in progress on a communicator.
//
// If all ranks share memory, a coll.ShmImmediate may do the collective instead: in one step, or, with direct copies from the
// memory of the root, in several. If the ranks are on several nodes, it may do what a collective on two levels does within a
// node. These collectives are numbered when they are started, as the tags are, since all ranks start them in the same order.
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
	kept    int        // bytes of scratch memory that the free list keeps
}

// maxKept is the most bytes of scratch memory that the free list of a communicator keeps for later calls. A collective that needs
// more takes some milliseconds, of which the allocation is a small part.
const maxKept = 16 << 20

// immediate is an immediate or persistent collective. An immediate one is used again when it has ended.
type immediate struct {
	comm       *Comm
	plan       coll.Plan
	operation  coll.Operation
	schedule   proto.Schedule
	call       perf.Op
	waitsFor   int   // the rank for which a step over shared memory waits; negative: none
	tag        int32 // of its messages
	persistent bool
	next       *immediate // free list
}

// take returns an immediate without steps.
func (l *immediates) take(c *Comm) *immediate {
	l.mu.Lock()
	x := l.free
	if x != nil {
		l.free = x.next
		l.kept -= x.plan.Kept()
	}
	l.mu.Unlock()
	if x == nil {
		x = &immediate{comm: c}
	}
	x.plan.Reset(int(c.coll.rank), len(c.coll.peers), c.proc.table)
	x.plan.SetNodes(c.coll.nodes())
	return x
}

// put ends the use of an immediate. It keeps no buffers of the program, and scratch memory up to maxKept in all.
func (l *immediates) put(x *immediate) {
	x.plan.Reset(0, 0, nil)
	x.operation = coll.Operation{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept+x.plan.Kept() > maxKept {
		x.plan.Drop()
		if first := l.free; first != nil { // it stays the first: it may have memory
			x.next, first.next = first.next, x
			return
		}
	}
	l.kept += x.plan.Kept()
	x.next, l.free = l.free, x
}

// nextTag returns the tag of the next call. All ranks make the calls in the same order.
func (l *immediates) nextTag() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tag()
}

func (l *immediates) tag() int32 {
	l.started++
	return l.started&(immediateTag-1) | immediateTag
}

// begin returns the tag of the next call, and begins what it does over shared memory.
func (l *immediates) begin(x *immediate) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !x.plan.Compared {
		return l.tag()
	}
	shape := callShape{root: x.plan.Root}
	if x.operation.Foreign {
		shape.op = opCodeUser
	}
	describes := shape.pack(x.call, x.plan.Bytes)
	for i := range x.plan.SharedCalls {
		call, f := &x.plan.SharedCalls[i], x.plan.Shared(i)
		switch {
		case call.Used():
			f.Begin(call, describes)
		case f != nil:
			f.Note(describes)
		}
	}
	return l.tag()
}

// Start says how a collective is started.
type Start uint8

// The ways to start a collective.
const (
	Immediate  Start = iota // the call is an immediate collective
	Persistent              // the call returns a persistent request, which Request.Start starts
	Blocking                // the call is a blocking collective
)

// Name returns the name of a call whose immediate form is call.
func (s Start) Name(call perf.Op) string {
	switch s {
	case Blocking:
		return call.Blocking().String()
	case Persistent:
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
	if m.start == Persistent {
		return m.start.Name(m.call)
	}
	return m.call.String()
}

// collFunc is the algorithm of a collective.
type collFunc func(coll.Peer, *coll.Operation) error

// startCollective starts a collective that does not block, of which this rank sends or receives n bytes. check checks the
// arguments, and sets the operation if there is one. describe describes the call, if calls are checked. run is the algorithm,
// which records its steps. The functions must not escape: the caller's closures then stay on the stack.
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
	if x.call, x.waitsFor = m.call, -1; m.start == Immediate && !c.checks && !c.coll.deterministic.Load() {
		if s := c.coll.shm.immediates.Load(); s != nil {
			x.plan.SetShared(s, c.coll.levels.Memory)
		}
	}
	if c.checks && m.start == Persistent {
		err = c.compareCall(describe(), err)
	}
	if err == nil {
		err = c.wrapError(m.name(), m.views.run(&x.plan, &x.operation, run))
	}
	if c.checks && m.start == Immediate {
		return c.startChecked(m, x, n, describe(), err)
	}
	if err != nil {
		c.immediates.put(x)
		return err
	}
	x.tag = c.immediates.begin(x)
	on := proto.Route{Context: c.contextID | collectiveBit, Match: proto.Match{Tag: x.tag}, Op: m.call}
	x.allocateShared()
	if x.persistent = m.start == Persistent; x.persistent {
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
	c.started.add(g.tag, call)
	c.engine.Recording().Called(call)
	mine.Where = callPosition()
	began := c.engine.Recording().BeginOp(call, n)
	r := Request{c.engine.StartGrequest()}
	c.engine.Recording().EndOp(call, n, began)
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
	var started []coll.Handle
	defer func() {
		if err != nil {
			g.fail(err)
			g.Cancel(started)
		}
	}()
	defer recoverPanic(&err)
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
		func(p coll.Peer, _ *coll.Operation) error {
			c.coll.shm.expectRoot(root)
			return coll.Bcast(p, b, root)
		})
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
		func(p coll.Peer, _ *coll.Operation) error {
			c.coll.shm.expectRoot(root)
			return coll.Scatter(p, dst, src, root)
		})
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
	err = c.ireduce(collMode{call: perf.Ireduce, req: &r, start: start}, dst, src, k, o, root)
	return r, err
}

func (c *Comm) ireduce(m collMode, dst, src []byte, k Elements, o Op, root int) error {
	if c.isInter() {
		return c.interReduce(m, dst, src, k, o, root)
	}
	return c.startCollective(m, len(src), func(x *coll.Operation) (err error) {
		dst, err = c.reduceBuffers(x, m.name(), dst, src, k, o, root)
		return err
	}, func() *collCall { return c.newCollCall(m.call, k, len(src)).rooted(root).reducing(o) },
		func(p coll.Peer, x *coll.Operation) error { return coll.Reduce(p, dst, src, x, root) })
}

// Iallreduce starts an Allreduce.
func (c *Comm) Iallreduce(start Start, dst, src []byte, k Elements, o Op) (r Request, err error) {
	err = c.iallreduce(collMode{call: perf.Iallreduce, req: &r, start: start}, dst, src, k, o)
	return r, err
}

func (c *Comm) iallreduce(m collMode, dst, src []byte, k Elements, o Op) error {
	if c.isInter() {
		return c.interAllreduce(m, dst, src, k, o)
	}
	return c.startReduction(m, coll.Allreduce, dst, src, k, o)
}

// IallreduceMany starts an AllreduceMany.
func (c *Comm) IallreduceMany(start Start, b Pairs, k Elements, o Op) (r Request, err error) {
	m, n := collMode{call: perf.Iallreduce, req: &r, start: start}, b.bytes()
	if c.isInter() {
		return r, c.newError(m.name(), ErrComm, errInter)
	}
	err = c.startCollective(m, n, func(x *coll.Operation) error { return c.samePairs(x, m.name(), b, k, o) },
		func() *collCall { return c.newCollCall(m.call, k, n).reducing(o).blocks(b.counts(k), nil) },
		func(p coll.Peer, x *coll.Operation) error {
			return coll.AllreduceMany(p, b.Srcs, b.At, func(dst, src []byte) error { return coll.Allreduce(p, dst, src, x) })
		})
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
	err = c.ireduceScatterBlock(collMode{call: perf.IreduceScatterBlock, req: &r, start: start}, dst, src, k, o)
	return r, err
}

func (c *Comm) ireduceScatterBlock(m collMode, dst, src []byte, k Elements, o Op) error {
	counts, err := c.equalCounts(m.name(), src, k)
	if err != nil {
		return err
	}
	return c.startReduceScatter(m, dst, src, counts, k, o)
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
