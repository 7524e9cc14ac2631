package core

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Collectives over shared memory compare the calls of the ranks without Config.Check as well,
// because a rank reads a cache line of the others anyway. A call is packed into coll.CallBits bits
// there, so an error names no source lines.

// callShape is what the ranks of a collective must agree on, beside the call and the length.
type callShape struct {
	kind datatype.Kind // of the elements; 0: none; kindData: not numbers
	op   uint8         // see opCode and Elements.shape
	root int           // 0 without a root
}

// The bits of a packed call, from the lowest one on.
const (
	shapeLengthBits = 21
	shapeCallBits   = 8
	shapeKindBits   = 5
	shapeOpBits     = 6
	shapeRootBits   = coll.CallBits - shapeLengthBits - shapeCallBits - shapeKindBits - shapeOpBits

	shapeLengthMax = 1<<(shapeLengthBits-1) - 1 // greater lengths have the highest bit, and a hash below it
)

// kindData is the kind of elements that are not numbers.
const kindData = 1<<shapeKindBits - 1

// Codes of reduction operations. A predefined one has its number, which is greater.
const (
	opCodeNone = iota
	opCodeUser
	opCodeUserCommut
)

// opCode returns the number of an operation. Functions of the user cannot be compared.
func opCode(o Op) uint8 {
	switch o := o.(type) {
	case Predefined:
		return uint8(o)
	case *userOp:
		if o.commutative {
			return opCodeUserCommut
		}
		return opCodeUser
	}
	return opCodeNone
}

// pack returns the call in coll.CallBits bits.
func (s callShape) pack(call perf.Op, bytes int) uint64 {
	n := uint64(bytes)
	if n > shapeLengthMax {
		n = n*0x9e3779b97f4a7c15>>(64-(shapeLengthBits-1)) | (shapeLengthMax + 1)
	}
	shape := uint64(s.kind) | (uint64(s.op)|uint64(s.root)<<shapeOpBits)<<shapeKindBits
	return n | (uint64(call)|shape<<shapeCallBits)<<shapeLengthBits
}

// hashOf returns a hash of the counts of blocks, in the place of a root.
func hashOf(counts []int) int {
	h := uint64(len(counts))
	for _, n := range counts {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return int(h >> (64 - shapeRootBits))
}

// packedCall is a call as callShape.pack returns it, with the hash of the earlier calls above it.
type packedCall uint64

func (x packedCall) length() int { return int(x & (1<<shapeLengthBits - 1)) }

func (x packedCall) call() perf.Op { return perf.Op(x >> shapeLengthBits) }

func (x packedCall) shape() callShape {
	x >>= shapeLengthBits + shapeCallBits
	s := callShape{kind: datatype.Kind(x & (1<<shapeKindBits - 1))}
	x >>= shapeKindBits
	s.op = uint8(x & (1<<shapeOpBits - 1))
	s.root = int(x >> shapeOpBits & (1<<shapeRootBits - 1))
	return s
}

// earlier returns the hash of the earlier calls.
func (x packedCall) earlier() uint64 { return uint64(x) >> coll.CallBits }

// rooted reports whether the call has a root.
func (x packedCall) rooted() bool {
	return slices.Contains([]perf.Op{perf.Bcast, perf.Reduce, perf.Gather, perf.Scatter}, x.call().Blocking())
}

// String returns the call in words: "Allreduce of 11 elements of float64 (sum)".
func (x packedCall) String() string {
	text, s := x.call().String(), x.shape()
	switch size := s.kind.Size(); {
	case s.kind == 0 && x.length() == 0:
	case s.kind == 0 && x.length() > shapeLengthMax:
		text += fmt.Sprintf(" of more than %d bytes", shapeLengthMax)
	case s.kind == 0: // an immediate call
		text += fmt.Sprintf(" of %d bytes", x.length())
	case s.kind == kindData:
		text += x.dataText()
	case x.length() > shapeLengthMax:
		text += fmt.Sprintf(" of more than %d elements of %v", shapeLengthMax/max(size, 1), s.kind)
	default:
		text += fmt.Sprintf(" of %d elements of %v", x.length()/max(size, 1), s.kind)
	}
	switch {
	case s.op == opCodeNone, s.kind == kindData:
	case s.op == opCodeUser:
		text += " (an operation of the program)"
	case s.op == opCodeUserCommut:
		text += " (a commutative operation of the program)"
	default:
		text += fmt.Sprintf(" (%v)", Predefined(s.op))
	}
	if x.rooted() {
		text += fmt.Sprintf(" with root %d", s.root)
	}
	return text
}

// dataText describes the elements of a call that are not numbers.
func (x packedCall) dataText() string {
	text := fmt.Sprintf(" of %d bytes of %s", x.length(), checking.MixedName)
	if x.length() > shapeLengthMax {
		text = fmt.Sprintf(" of more than %d bytes of %s", shapeLengthMax, checking.MixedName)
	}
	return text + fmt.Sprintf(" (signature %x)", x.shape().op)
}

// callMismatch is the error of a collective whose ranks have made different calls.
type callMismatch struct {
	ranks [2]int
	calls [2]packedCall
}

// class returns the class of the first difference, in the order of checking.Difference.
func (m *callMismatch) class() Class {
	x, y := m.calls[0].shape(), m.calls[1].shape()
	switch {
	case m.calls[0].call() != m.calls[1].call():
		return ErrOther
	case x.root != y.root:
		return ErrRoot
	case x.kind != y.kind:
		return ErrType
	// The bits of op belong to the signature here, and another length may explain another
	// signature.
	case x.kind == kindData && m.calls[0].length() != m.calls[1].length():
		return ErrCount
	case x.kind == kindData && x.op>>1 != y.op>>1:
		return ErrType
	case x.op != y.op:
		return ErrOp
	case m.calls[0].length() != m.calls[1].length():
		return ErrCount
	}
	return ErrOther
}

func (m *callMismatch) Error() string {
	x, y := m.calls[0], m.calls[1]
	text := fmt.Sprintf("%v (rank %d) against %v (rank %d)", x, m.ranks[0], y, m.ranks[1])
	if x.earlier() != y.earlier() {
		text += ", after earlier collectives that differed"
	}
	return text + "; no collective succeeds on this communicator any more. Run with ibrun --check for the source lines"
}

// mismatchRecord is a callMismatch in memory that the ranks share. Only atomic operations access
// it. A rank that finds a mismatch while state is mismatchNone writes it, before it leaves the
// context of collectives. Ranks that see this rank leave read it.
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
	m := &callMismatch{[2]int{int(g.rank), rank}, [2]packedCall{packedCall(mine), packedCall(other)}}
	// The first mismatch is the one to show. Later ones may come from ranks that the first one has
	// stopped.
	if r := g.shm.mismatch; atomic.CompareAndSwapUint64(&r.state, mismatchNone, mismatchWriting) {
		for i := range m.ranks {
			atomic.StoreUint64(&r.ranks[i], uint64(m.ranks[i]))
			atomic.StoreUint64(&r.calls[i], uint64(m.calls[i]))
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
	m := &callMismatch{}
	for i := range m.ranks {
		m.ranks[i] = int(atomic.LoadUint64(&r.ranks[i]))
		m.calls[i] = packedCall(atomic.LoadUint64(&r.calls[i]))
	}
	return m
}
