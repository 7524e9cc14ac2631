package core

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
)

// Collectives over shared memory compare the calls of the ranks without Config.Check as well,
// because a rank reads a cache line of the others anyway. A call is packed into coll.CallBits bits
// there, so an error names no source lines.

// opCode returns the number of an operation. Functions of the user cannot be compared.
func opCode(o Op) uint8 {
	switch o := o.(type) {
	case Predefined:
		return uint8(o)
	case *userOp:
		if o.commutative {
			return checking.OpCommutative
		}
		return checking.OpUser
	}
	return checking.OpNone
}

// mismatchRecord is a checking.Mismatch in memory that the ranks share. Only atomic operations
// access it. A rank that finds a mismatch while state is mismatchNone writes it, before it leaves
// the context of collectives. Ranks that see this rank leave read it.
type mismatchRecord struct {
	state uint64
	ranks [2]uint64
	calls [2]uint64
}

// The states of a mismatchRecord.
const (
	mismatchNone = iota
	mismatchWriting
	mismatchWritten
)

// Differ ends the collectives of the communicator with the error that the calls of two ranks, which
// share memory, differ.
func (g *collState) Differ(rank int, mine, other uint64) error {
	m := g.recordMismatch(int(g.shm.ranks[rank]), mine, other)
	g.fail(m)
	return m
}

// recordMismatch returns the error that the calls of two ranks differ, which the other ranks see as
// well.
func (g *collState) recordMismatch(rank int, mine, other uint64) error {
	m := &checking.Mismatch{Ranks: [2]int{int(g.rank), rank},
		Calls: [2]checking.Packed{checking.Packed(mine), checking.Packed(other)}}
	// The first mismatch is the one to show. Later ones may come from ranks that the first one has
	// stopped.
	if r := g.shm.mismatch; atomic.CompareAndSwapUint64(&r.state, mismatchNone, mismatchWriting) {
		for i := range m.Ranks {
			atomic.StoreUint64(&r.ranks[i], uint64(m.Ranks[i]))
			atomic.StoreUint64(&r.calls[i], uint64(m.Calls[i]))
		}
		// The last store publishes the others: a rank that loads this state sees all of them.
		atomic.StoreUint64(&r.state, mismatchWritten)
	}
	return m
}

// recordedMismatch returns the mismatch that a rank has found; nil if there is none.
func (g *collState) recordedMismatch() error {
	r := g.main.shm.mismatch
	if r == nil || atomic.LoadUint64(&r.state) != mismatchWritten {
		return nil
	}
	m := &checking.Mismatch{}
	for i := range m.Ranks {
		m.Ranks[i] = int(atomic.LoadUint64(&r.ranks[i]))
		m.Calls[i] = checking.Packed(atomic.LoadUint64(&r.calls[i]))
	}
	return m
}
