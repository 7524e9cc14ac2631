package core

import (
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// An immediate or persistent collective runs the algorithm of the blocking one on a coll.Plan,
// which records its steps. The engine then does the steps as a proto.Schedule, whenever it makes
// progress. Each has messages with a tag of its own, so any number of them, and a blocking
// collective, can be in progress on a communicator.
//
// If all ranks share memory, a coll.ShmImmediate may do the collective instead: in one step, or,
// with direct copies from the memory of the root, in several. If the ranks are on several nodes, it
// may do what a collective on two levels does within a node. These collectives are numbered when
// they are started, as the tags are, since all ranks start them in the same order.
//
// When calls are checked, a goroutine does the steps of an immediate collective instead, after it
// has compared the calls, as for an Idup. A persistent one is compared by the call that creates its
// request, which may block.

// immediateTag is set in the tags of immediate collectives. See checkTag for the others.
const immediateTag = 1 << 28

// immediates are the immediate collectives of a communicator.
type immediates struct {
	mu      sync.Mutex
	started int32      // number of calls so far
	free    *immediate // free list
	kept    int        // bytes of scratch memory that the free list keeps
}

// maxKept is the most bytes of scratch memory that the free list of a communicator keeps for later
// calls. A collective that needs more takes some milliseconds, of which the allocation is a small
// part.
const maxKept = 16 << 20

// immediate is an immediate or persistent collective. An immediate one is used again when it has
// ended.
type immediate struct {
	of         *Collectives
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
func (l *immediates) take(of *Collectives) *immediate {
	l.mu.Lock()
	x := l.free
	if x != nil {
		l.free = x.next
		l.kept -= x.plan.Kept()
	}
	l.mu.Unlock()
	if x == nil {
		x = &immediate{of: of}
	}
	// Without the lock: x is in no list now.
	x.plan.Reset(int(of.main.rank), len(of.main.peers), of.main.table)
	x.plan.SetNodes(of.main.nodes())
	return x
}

// put ends the use of an immediate. It keeps no buffers of the program, and scratch memory up to
// maxKept in all.
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
	// One lock is held while the tag is taken and the calls over shared memory are numbered. So two
	// goroutines cannot get the tags in one order, and the numbers in the other.
	if !x.plan.Compared {
		return l.tag()
	}
	shape := checking.Shape{Root: x.plan.Root}
	if x.operation.Foreign {
		shape.Op = checking.OpUser
	}
	describes := shape.Pack(x.call, x.plan.Bytes)
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

// start starts a collective that does not block: x.start says how. many has the buffers of an
// AllreduceMany, and is nil for all others.
func (cs *Collectives) start(x *Collective, many *Pairs) (Request, error) {
	name, n := x.start.Name(x.Kind), x.bytes()
	inter, err := cs.admit(x, name)
	if err != nil {
		return Request{}, err
	}
	if err := cs.checkUsable(name); err != nil {
		return Request{}, err
	}
	c := cs.comm
	// An immediate collective does not use begin, since it runs beside others.
	if failed := cs.main.failed.Load(); failed != nil {
		return Request{}, c.wrapError(name, *failed)
	}
	s := cs.immediates.take(cs)
	if many != nil {
		n, err = many.bytes(), samePairs(&s.operation, many, x.Elements, x.Op)
	} else {
		err = cs.prepare(x, inter, &s.operation)
	}
	err = c.wrapError(name, err)
	if s.call, s.waitsFor = x.recorded(), -1; x.start == Immediate && !c.checks && !cs.main.deterministic.Load() {
		if f := cs.main.shm.immediates.Load(); f != nil {
			s.plan.SetShared(f, cs.main.levels.Memory)
		}
	}
	// A persistent collective is compared here, once for all its starts. Its steps are the same at
	// every start.
	if c.checks && x.start == Persistent {
		err = cs.compare(cs.describeStart(x, many, inter), err)
	}
	if err == nil {
		err = c.wrapError(name, s.record(x, many, inter))
	}
	if c.checks && x.start == Immediate {
		return cs.startChecked(s, n, cs.describeStart(x, many, inter), err)
	}
	if err != nil {
		cs.immediates.put(s)
		return Request{}, err
	}
	s.tag = cs.immediates.begin(s)
	on := proto.Route{Context: cs.main.context, Match: proto.Match{Tag: s.tag}, Op: s.call}
	// Before the start, which does the first steps with the engine's lock held.
	s.allocateShared()
	if s.persistent = x.start == Persistent; s.persistent {
		return Request{c.engine.Schedules().Init(on, n, s, &s.schedule)}, nil
	}
	return Request{c.engine.Schedules().Start(on, n, s, &s.schedule)}, nil
}

// describeStart returns a call that has been prepared as calls are compared.
func (cs *Collectives) describeStart(x *Collective, many *Pairs, inter bool) *checking.Call {
	if many != nil {
		return cs.describePairs(x.recorded(), many, x.Elements, x.Op)
	}
	return cs.describeCall(x, inter)
}

// record records the steps of a collective, with those that pack and unpack its views.
func (x *immediate) record(y *Collective, many *Pairs, inter bool) (err error) {
	packs := y.views != nil && !y.views.empty()
	if packs {
		x.plan.Call(y.views.pack)
	}
	switch p, o := &x.plan, &x.operation; {
	case many != nil:
		err = coll.AllreduceMany(p, many.Srcs, many.At, func(dst, src []byte) error { return coll.Allreduce(p, dst, src, o) })
	case inter:
		err = x.of.runInter(y, p, o)
	default:
		err = run(y, p, o)
	}
	if packs && err == nil {
		x.plan.Call(y.views.unpack)
	}
	return err
}

// startChecked starts an immediate collective whose call is compared with those of the other ranks.
// failed is the error that this rank has found; the others learn of it.
func (cs *Collectives) startChecked(x *immediate, n int, mine *checking.Call, failed error) (Request, error) {
	c := cs.comm
	call := x.call
	// A rank that has failed takes a tag as well. Otherwise the tags of later calls would not be
	// the same at all ranks.
	g := cs.main.beside(cs.immediates.nextTag(), call.Within())
	cs.started.add(g.tag, call)
	c.engine.Recording().Called(call)
	mine.Where = callPosition()
	began := c.engine.Recording().BeginOp(call, n)
	r := Request{c.engine.Requests().StartGrequest()}
	c.engine.Recording().EndOp(call, n, began)
	cs.idups.Go(func() {
		defer cs.immediates.put(x)
		err := cs.compareCall(g, mine, failed)
		if err == nil {
			err = c.wrapError(call.String(), x.callChecked(g))
		}
		// The request is active: a program can neither cancel nor free it.
		_ = c.engine.Requests().CompleteGrequest(r.h, err)
	})
	if failed != nil { // the goroutine still reports it to the other ranks
		return Request{}, c.joinError(call.String(), failed, c.engine.Requests().Abandon(r.h))
	}
	return r, nil
}

// callChecked does the steps of the plan with the messages of g. If it fails, no later collective
// succeeds.
func (x *immediate) callChecked(g *collState) (err error) {
	var started []coll.Handle
	defer func() {
		if err != nil {
			g.fail(err)
			g.Cancel(started)
		}
	}()
	// Deferred functions run in the reverse order, so this one sets err before the one above reads
	// it.
	defer recoverPanic(&err)
	for i := range x.plan.Steps {
		var h coll.Handle
		switch s := &x.plan.Steps[i]; s.Kind {
		case coll.StepSend:
			if h, err = g.Isend(s.Peer, s.A); err == nil {
				started = append(started, h)
			}
		case coll.StepRecv:
			if h, err = g.Irecv(s.Peer, s.Dst); err == nil {
				started = append(started, h)
			}
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
