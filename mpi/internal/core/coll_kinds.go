package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// What the collectives do with their arguments. Each function has a switch over all of them, with
// direct calls: calls of functions in a table would let the arguments escape, so that each call
// allocates them.

// immediateForm is the inverse of perf.Op.Blocking. Operations have the order of perf/op.go, there
// and in the ranges below.
func immediateForm(kind perf.Op) perf.Op {
	switch {
	case kind <= perf.Alltoallv:
		return kind - perf.Barrier + perf.Ibarrier
	case kind <= perf.ReduceScatterBlock:
		return kind - perf.NeighborAllgather + perf.IneighborAllgather
	}
	return kind - perf.Alltoallw + perf.Ialltoallw
}

// isNeighbor reports whether x is a neighborhood collective. NeighborAlltoallw has a test of its
// own because perf/op.go has it behind the others.
func (x *Collective) isNeighbor() bool {
	return x.Kind >= perf.NeighborAllgather && x.Kind <= perf.NeighborAlltoallv || x.Kind == perf.NeighborAlltoallw
}

// isReduction reports whether x has an operation.
func (x *Collective) isReduction() bool {
	return x.Kind >= perf.Reduce && x.Kind <= perf.Exscan || x.Kind == perf.ReduceScatterBlock
}

// usesRoot reports whether x has a root.
func (x *Collective) usesRoot() bool {
	return x.Kind == perf.Bcast || x.Kind == perf.Reduce || x.Kind >= perf.Gather && x.Kind <= perf.Scatterv
}

// lists reports for each side whether its views are one for each rank or neighbor. On the other
// sides one view has all data.
func (x *Collective) lists() (dst, src bool) {
	switch x.Kind {
	case perf.Gatherv, perf.Allgatherv, perf.NeighborAllgatherv:
		return true, false
	case perf.Scatterv:
		return false, true
	case perf.Alltoallv, perf.Alltoallw, perf.NeighborAlltoallv, perf.NeighborAlltoallw:
		return true, true
	}
	return false, false
}

// sidesOfRoot reports for each side whether it is used at the root only. Other ranks may pass
// anything there, so it is neither checked nor packed.
func (x *Collective) sidesOfRoot() (dst, src bool) {
	switch x.Kind {
	case perf.Gather, perf.Gatherv, perf.Reduce:
		return true, false
	case perf.Scatter, perf.Scatterv:
		return false, true
	}
	return false, false
}

// bytes returns the number of bytes that this rank sends or receives, as it is recorded. A Bcast
// has no Src, and that of a Scatter is used at the root only.
func (x *Collective) bytes() int {
	if x.Kind == perf.Bcast || x.Kind == perf.Scatter || x.Kind == perf.Scatterv {
		return len(x.Dst)
	}
	return len(x.Src)
}

// prepare checks the arguments, and changes them as package coll expects them. It sets the
// operation of a reduction.
func (a *arguments) prepare(x *Collective, o *coll.Operation) (err error) {
	k := x.Elements
	switch x.Kind {
	case perf.Bcast:
		err = a.checkRoot(x.Root)
	case perf.Gather:
		x.Dst, x.Src, err = a.gatherBlocks(x.Dst, x.Src, k, x.Root)
	case perf.Scatter:
		x.Src, x.Dst, err = a.gatherBlocks(x.Src, x.Dst, k, x.Root)
	case perf.Gatherv:
		x.To, x.Src, err = a.partsAtRoot(x.Dst, x.To, x.Src, k, x.Root)
	case perf.Scatterv:
		x.From, x.Dst, err = a.partsAtRoot(x.Src, x.From, x.Dst, k, x.Root)
	case perf.Allgather:
		x.Src, err = a.ownBlock(x.Dst, x.Src, k.Size())
	case perf.Allgatherv:
		at, own, failed := a.ownPartAtRoot(x.Dst, x.To, x.Src, k.Size())
		if err = failed; err == nil { // otherwise the other ranks learn of the counts
			x.To, x.Src = at, own
		}
	case perf.Alltoall:
		err = a.alltoallBuffers(x.Dst, x.Src, k)
	case perf.Alltoallv, perf.Alltoallw:
		x.To, x.From, err = a.alltoallLayouts(x.Dst, x.To, x.Src, x.From, k.Size())
	case perf.Reduce:
		x.Dst, err = a.reduceBuffers(o, x.Dst, x.Src, k, x.Op, x.Root)
	case perf.Allreduce, perf.Scan, perf.Exscan:
		err = a.sameBuffers(o, x.Dst, x.Src, k, x.Op)
	case perf.ReduceScatter, perf.ReduceScatterBlock:
		if x.Dst, err = a.ownResult(x.Dst, x.Src, x.To.Counts, k); err == nil {
			err = setOperation(o, k, x.Op)
		}
	default:
		if x.isNeighbor() {
			err = a.neighborBlocks(x)
		}
	}
	return err
}

// describeCall returns a call that has been prepared as calls are compared. Calls on an
// intercommunicator are compared by their names only, since the groups pass different arguments:
// their roots, and the lengths of what they send.
func (cs *Collectives) describeCall(x *Collective, inter bool) *checking.Call {
	call := x.recorded()
	if x.Kind == perf.Barrier || inter {
		y := &checking.Call{Call: call}
		if x.start == Blocking {
			y.Idups = cs.idupSeq.Load()
		}
		return y
	}
	n := x.bytes() // that must be the same at all ranks, or of the block of this rank
	switch x.Kind {
	case perf.Alltoall: // Src has a block for each rank
		n /= len(cs.comm.peers)
	case perf.Allgatherv, perf.Alltoallv, perf.Alltoallw, perf.ReduceScatter, perf.ReduceScatterBlock:
		n = 0
	}
	if x.isNeighbor() {
		n = 0
	}
	y := cs.newCollCall(call, x.Elements, n)
	if x.isReduction() {
		y.Op = describeOp(x.Op)
	}
	if x.usesRoot() {
		y.Root, y.Rooted = x.Root, true
	}
	switch x.Kind {
	case perf.Gatherv, perf.Allgatherv, perf.ReduceScatter, perf.ReduceScatterBlock:
		y.Counts = x.To.Counts
	case perf.Scatterv:
		y.Counts = x.From.Counts
	case perf.Alltoallv, perf.Alltoallw:
		y.Counts, y.From = x.From.Counts, x.To.Counts
	}
	return y
}

// runShared makes a blocking collective over shared memory, if that is the fastest. done reports
// whether it has. Kinds without a case here always use messages. The ranks compare the shapes of
// their calls, which have room for a root and for no counts: where counts must be the same at all
// ranks, their hash takes the place of the root.
func (g *collState) runShared(x *Collective) (done bool, err error) {
	k, o, size := x.Elements, &g.operation, len(g.peers)
	var f *coll.Shm
	switch x.Kind {
	case perf.Barrier:
		if f = g.shmFor(coll.OfBarrier, 0, checking.Shape{}); f != nil {
			err = f.BarrierBefore(g.shm.takeRoot())
		}
	case perf.Bcast:
		if f = g.shmFor(coll.OfBcast, len(x.Dst), k.shape(checking.OpNone, x.Root)); f != nil {
			err = f.Bcast(x.Dst, x.Root)
		}
	case perf.Gather:
		if f = g.shmFor(coll.OfGather, len(x.Src), k.shape(checking.OpNone, x.Root)); f != nil {
			err = f.Gather(x.Dst, x.Src, x.Root)
		}
	case perf.Scatter:
		if f = g.shmFor(coll.OfScatter, len(x.Dst), k.shape(checking.OpNone, x.Root)); f != nil {
			err = f.Scatter(x.Dst, x.Src, x.Root)
		}
	case perf.Allgather:
		if f = g.shmFor(coll.OfAllgather, len(x.Src), k.shape(checking.OpNone, 0)); f != nil {
			err = f.Allgather(x.Dst, x.Src)
		}
	case perf.Alltoall:
		if f = g.shmFor(coll.OfAlltoall, len(x.Src)/size, k.shape(checking.OpNone, 0)); f != nil {
			err = f.Alltoall(x.Dst, x.Src)
		}
	case perf.Reduce:
		if f = g.shmReduction(coll.OfReduce, len(x.Src), k, x.Op, x.Root); f != nil {
			err = f.Reduce(x.Dst, x.Src, o, x.Root)
		}
	case perf.Allreduce:
		if f = g.shmReduction(coll.OfAllreduce, len(x.Src), k, x.Op, 0); f != nil {
			err = f.Allreduce(x.Dst, x.Src, o)
		}
	case perf.ReduceScatter, perf.ReduceScatterBlock:
		counts := x.To.Counts
		if f = g.shmReduction(coll.OfReduceScatter, len(x.Src), k, x.Op, checking.Hash(counts)); f != nil {
			err = f.ReduceScatter(x.Dst, x.Src, counts, o)
		}
	}
	return f != nil, err
}

// run makes a collective with the messages of p, or records its steps if p is a plan.
func run(x *Collective, p coll.Peer, o *coll.Operation) error {
	switch x.Kind {
	case perf.Barrier:
		if x.as == perf.Finalize { // over the connections of Init: others would be made for this barrier only
			return coll.BarrierTree(p)
		}
		return coll.Barrier(p)
	case perf.Bcast:
		return coll.Bcast(p, x.Dst, x.Root)
	case perf.Gather:
		return coll.Gather(p, x.Dst, x.Src, x.Root)
	case perf.Gatherv:
		return coll.Gatherv(p, x.Dst, x.To, x.Src, x.Root)
	case perf.Scatter:
		return coll.Scatter(p, x.Dst, x.Src, x.Root)
	case perf.Scatterv:
		return coll.Scatterv(p, x.Dst, x.Src, x.From, x.Root)
	case perf.Allgather:
		return coll.Allgather(p, x.Dst, x.Src)
	case perf.Allgatherv:
		return coll.Allgatherv(p, x.Dst, x.To, x.Src)
	case perf.Alltoall:
		return coll.Alltoall(p, x.Dst, x.Src)
	case perf.Alltoallv, perf.Alltoallw:
		return coll.Alltoallv(p, x.Dst, x.To, x.Src, x.From)
	case perf.Reduce:
		return coll.Reduce(p, x.Dst, x.Src, o, x.Root)
	case perf.Allreduce:
		return coll.Allreduce(p, x.Dst, x.Src, o)
	case perf.ReduceScatter, perf.ReduceScatterBlock:
		return coll.ReduceScatter(p, x.Dst, x.Src, x.To.Counts, o)
	case perf.Scan:
		return coll.Scan(p, x.Dst, x.Src, o)
	case perf.Exscan:
		return coll.Exscan(p, x.Dst, x.Src, o)
	}
	return coll.Neighbor(p, x.edges, x.Dst, x.To, x.Src, x.From)
}

// sinkUse returns the use of the data that a collective receives. Data that may not be received
// although the call succeeds is sent and received: at ranks of an intercommunicator that do not
// take part, of a neighbor that is ProcNull, or behind a result.
func (cs *Collectives) sinkUse(x *Collective) int {
	switch x.Kind {
	case perf.Bcast:
		if cs.isRoot(x.Root) {
			return isSource
		}
		return isSource | isSink
	case perf.Scatter, perf.Scatterv:
		if cs.isInter() {
			return isSource | isSink
		}
	case perf.ReduceScatter, perf.ReduceScatterBlock, perf.Exscan:
		return isSource | isSink
	}
	if x.isNeighbor() {
		return isSource | isSink
	}
	return isSink
}

// elementsOfViews returns the elements of a collective. Of data of several kinds they are bytes,
// with a signature in p. All ranks compare the elements of one block, so they are taken from a side
// that has data at this rank: at the root from that with the blocks of all ranks, elsewhere from
// the rank's own block. Neighbors may send blocks of different kinds, which are not compared.
func (cs *Collectives) elementsOfViews(x *Collective, v *Views, p *packing) Elements {
	switch n := len(cs.comm.peers); x.Kind {
	case perf.Gather, perf.Allgather:
		if v.Dst.Size() != 0 {
			return p.elementsOf(v.Dst, n)
		}
		return p.elementsOf(v.Src, 1)
	case perf.Scatter:
		if v.Src.Size() != 0 {
			return p.elementsOf(v.Src, n)
		}
		return p.elementsOf(v.Dst, 1)
	case perf.Bcast:
		return p.elementsOf(v.Dst, 1)
	case perf.NeighborAllgather:
		return p.elementsOf(v.Src, 1)
	case perf.Alltoall:
		return p.elementsOf(v.Dst, n)
	case perf.Gatherv, perf.Allgatherv:
		return cs.elementsOfParts(v.Src, v.Dsts, nil)
	case perf.Scatterv:
		return cs.elementsOfParts(v.Dst, v.Srcs, nil)
	case perf.Alltoallv, perf.Alltoallw:
		return cs.elementsOfParts(nil, v.Srcs, v.Dsts)
	case perf.NeighborAllgatherv, perf.NeighborAlltoall, perf.NeighborAlltoallv, perf.NeighborAlltoallw:
		return Elements{kind: datatype.Byte}
	}
	return p.reduced(v.Dst, v.Src, x.Op)
}
