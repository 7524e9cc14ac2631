package mpi_test

import (
	"slices"

	"github.com/ibrun/ibrun/mpi"
)

// collectivePair is a collective in both forms, on buffers of their own with the same contents.
type collectivePair struct {
	name      string
	immediate func() (mpi.Request, error)
	blocking  func() error
	got, want []int32
}

// pairMaker has the communicators and buffers of a collectivePair, whose blocks have n elements. Each form has an own and a whole
// buffer; those of the blocking form end with B.
type pairMaker struct {
	c, b               *mpi.Comm
	root, n, blocks    int
	isRoot, inPlace    bool
	persistent         bool // the other form is persistent, and not immediate
	own, whole         []int32
	ownB, wholeB       []int32
	same, displs, each []int // counts and displacements; each is the counts of a ReduceScatter
}

// filled returns n numbers that tell the rank.
func filled(c *mpi.Comm, n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(1 + 1000*c.Rank() + 7*i)
	}
	return x
}

// pairOf returns collective i of pairNames. The blocking form uses the communicator b.
func pairOf(c, b *mpi.Comm, i, n, root int, inPlace, persistent bool) collectivePair {
	m := pairMaker{c: c, b: b, root: root, n: n, blocks: c.Size(), isRoot: root == c.Rank(), inPlace: inPlace,
		persistent: persistent}
	if c.Remote() {
		m.blocks, m.isRoot, m.inPlace = c.RemoteSize(), root == mpi.Root, false
	}
	m.own, m.ownB, m.whole, m.wholeB = filled(c, n), filled(c, n), filled(c, n*m.blocks), filled(c, n*m.blocks)
	m.same, m.displs = slices.Repeat([]int{n}, m.blocks), make([]int, m.blocks)
	for i := range m.displs {
		m.displs[i] = (m.blocks - 1 - i) * n
	}
	var x collectivePair
	switch {
	case i < 5:
		x = m.rooted(i)
	case i < 9:
		x = m.moved(i)
	default:
		x = m.reduced(i)
	}
	x.name = pairNames[i]
	return x
}

// useOwn makes the own buffers those that begin at element at of the whole ones.
func (m *pairMaker) useOwn(at int) { m.own, m.ownB = m.whole[at:][:m.n], m.wholeB[at:][:m.n] }

// target returns the buffers of a result of n elements: others than the sources, or these if the call is in place.
func (m *pairMaker) target(n int, src, srcB []int32) (dst, dstB []int32) {
	if m.inPlace {
		return src[:n], srcB[:n]
	}
	return filled(m.c, n), filled(m.c, n)
}

// pick returns a, or b if second is set.
func pick[F any](second bool, a, b F) F {
	if second {
		return b
	}
	return a
}

// rooted returns a collective that moves data from or to a root.
func (m *pairMaker) rooted(i int) collectivePair {
	if m.inPlace && m.isRoot {
		switch pairNames[i] {
		case "gather", "scatter":
			m.useOwn(m.c.Rank() * m.n)
		case "gatherv":
			m.useOwn(m.displs[m.c.Rank()])
		}
	}
	x := collectivePair{got: m.whole, want: m.wholeB}
	switch pairNames[i] {
	case "bcast":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Ibcast[int32], mpi.BcastInit[int32])(m.c, m.own, m.root)
		}
		x.blocking = func() error { return mpi.Bcast(m.b, m.ownB, m.root) }
		x.got, x.want = m.own, m.ownB
	case "gather":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Igather[int32], mpi.GatherInit[int32])(m.c, m.whole, m.own, m.root)
		}
		x.blocking = func() error { return mpi.Gather(m.b, m.wholeB, m.ownB, m.root) }
	case "gatherv":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Igatherv[int32], mpi.GathervInit[int32])(m.c, m.whole, m.same, m.displs, m.own, m.root)
		}
		x.blocking = func() error { return mpi.Gatherv(m.b, m.wholeB, m.same, m.displs, m.ownB, m.root) }
	case "scatter":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iscatter[int32], mpi.ScatterInit[int32])(m.c, m.own, m.whole, m.root)
		}
		x.blocking = func() error { return mpi.Scatter(m.b, m.ownB, m.wholeB, m.root) }
		x.got, x.want = m.own, m.ownB
	case "scatterv":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iscatterv[int32], mpi.ScattervInit[int32])(m.c, m.own, m.whole, m.same, m.displs, m.root)
		}
		x.blocking = func() error { return mpi.Scatterv(m.b, m.ownB, m.wholeB, m.same, m.displs, m.root) }
		x.got, x.want = m.own, m.ownB
	}
	return x
}

// moved returns a collective that moves data between all ranks.
func (m *pairMaker) moved(i int) collectivePair {
	x := collectivePair{got: m.whole, want: m.wholeB}
	switch pairNames[i] {
	case "allgather":
		if m.inPlace {
			m.useOwn(m.c.Rank() * m.n)
		}
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iallgather[int32], mpi.AllgatherInit[int32])(m.c, m.whole, m.own)
		}
		x.blocking = func() error { return mpi.Allgather(m.b, m.wholeB, m.ownB) }
	case "allgatherv":
		if m.inPlace {
			m.useOwn(m.displs[m.c.Rank()])
		}
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iallgatherv[int32], mpi.AllgathervInit[int32])(m.c, m.whole, m.same, m.displs, m.own)
		}
		x.blocking = func() error { return mpi.Allgatherv(m.b, m.wholeB, m.same, m.displs, m.ownB) }
	case "alltoall":
		dst, dstB := m.target(len(m.whole), m.whole, m.wholeB)
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Ialltoall[int32], mpi.AlltoallInit[int32])(m.c, dst, m.whole)
		}
		x.blocking = func() error { return mpi.Alltoall(m.b, dstB, m.wholeB) }
		x.got, x.want = dst, dstB
	case "alltoallv":
		dst, dstB := m.target(len(m.whole), m.whole, m.wholeB)
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Ialltoallv[int32], mpi.AlltoallvInit[int32])(m.c, dst, m.same, m.displs, m.whole, m.same, nil)
		}
		x.blocking = func() error { return mpi.Alltoallv(m.b, dstB, m.same, m.displs, m.wholeB, m.same, nil) }
		x.got, x.want = dst, dstB
	}
	return x
}

// reduced returns a reduction or a barrier.
func (m *pairMaker) reduced(i int) collectivePair {
	dst, dstB := m.target(m.n, m.own, m.ownB)
	x := collectivePair{got: dst, want: dstB}
	switch pairNames[i] {
	case "reduce":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Ireduce[int32], mpi.ReduceInit[int32])(m.c, dst, m.own, mpi.Sum, m.root)
		}
		x.blocking = func() error { return mpi.Reduce(m.b, dstB, m.ownB, mpi.Sum, m.root) }
	case "allreduce":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iallreduce[int32], mpi.AllreduceInit[int32])(m.c, dst, m.own, lastOf)
		}
		x.blocking = func() error { return mpi.Allreduce(m.b, dstB, m.ownB, lastOf) }
	case "reduceScatter": // both groups of an intercommunicator have as many elements
		src, srcB := filled(m.c, 6*m.n), filled(m.c, 6*m.n)
		m.each = slices.Repeat([]int{6 * m.n / m.c.Size()}, m.c.Size())
		m.each[0] += 6 * m.n % m.c.Size()
		dst, dstB := m.target(m.each[m.c.Rank()], src, srcB)
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.IreduceScatter[int32], mpi.ReduceScatterInit[int32])(m.c, dst, src, m.each, mpi.Max)
		}
		x.blocking = func() error { return mpi.ReduceScatter(m.b, dstB, srcB, m.each, mpi.Max) }
		x.got, x.want = dst, dstB
	case "reduceScatterBlock":
		src, srcB := filled(m.c, 6*m.n*m.c.Size()), filled(m.c, 6*m.n*m.c.Size())
		if m.c.Remote() {
			src, srcB = src[:6*m.n], srcB[:6*m.n]
		}
		dst, dstB := m.target(len(src)/m.c.Size(), src, srcB)
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.IreduceScatterBlock[int32], mpi.ReduceScatterBlockInit[int32])(m.c, dst, src, mpi.Sum)
		}
		x.blocking = func() error { return mpi.ReduceScatterBlock(m.b, dstB, srcB, mpi.Sum) }
		x.got, x.want = dst, dstB
	case "barrier":
		x.immediate, x.blocking = pick(m.persistent, m.c.Ibarrier, m.c.BarrierInit), m.b.Barrier
	case "scan":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iscan[int32], mpi.ScanInit[int32])(m.c, dst, m.own, mpi.Sum)
		}
		x.blocking = func() error { return mpi.Scan(m.b, dstB, m.ownB, mpi.Sum) }
	case "exscan":
		x.immediate = func() (mpi.Request, error) {
			return pick(m.persistent, mpi.Iexscan[int32], mpi.ExscanInit[int32])(m.c, dst, m.own, lastOf)
		}
		x.blocking = func() error { return mpi.Exscan(m.b, dstB, m.ownB, lastOf) }
	}
	return x
}

// pairNames are the collectives of pairOf.
var pairNames = [...]string{"bcast", "gather", "gatherv", "scatter", "scatterv",
	"allgather", "allgatherv", "alltoall", "alltoallv", "reduce", "allreduce", "reduceScatter", "reduceScatterBlock",
	"barrier", "scan", "exscan"}

// interPairs is the number of those that are defined on intercommunicators.
const interPairs = len(pairNames) - 2

// lastOf is an operation that does not commute: the operand of the higher rank.
var lastOf = mpi.NewOp(false, func(dst, src []int32) { copy(dst, src) })
