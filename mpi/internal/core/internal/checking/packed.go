package checking

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
	"github.com/ibrun/ibrun/perf"
)

// Shape is what the ranks of a collective must agree on, beside the call and the length.
type Shape struct {
	Kind datatype.Kind // of the elements; 0: none; KindData: not numbers
	Op   uint8         // a code below, the number of a predefined operation, or see ShapeOfData
	Root int           // 0 without a root
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

// KindData is the kind of elements that are not numbers.
const KindData = 1<<shapeKindBits - 1

// Codes of reduction operations. A predefined one has its number, which is greater.
const (
	OpNone        = iota
	OpUser        // a function of the program, which cannot be compared
	OpCommutative // the same, of an operation that is commutative
)

// ShapeOfData returns the shape of a call with elements that are not numbers. Of their signature it
// has a few bits, which are where the operation of numbers is. The lowest says whether a function
// of the program is commutative.
func ShapeOfData(sig datatype.Signature, op uint8, root int) Shape {
	hash := sig.Hash
	// A predefined operation counts as well. Of functions of the program only whether they are
	// commutative can be compared.
	if op > OpCommutative {
		hash += uint64(op)
	}
	code := uint8(hash%(1<<(shapeOpBits-1))) << 1
	if op == OpCommutative {
		code |= 1
	}
	return Shape{KindData, code, root}
}

// Pack returns the call in coll.CallBits bits.
func (s Shape) Pack(call perf.Op, bytes int) uint64 {
	n := uint64(bytes)
	if n > shapeLengthMax {
		n = n*0x9e3779b97f4a7c15>>(64-(shapeLengthBits-1)) | (shapeLengthMax + 1)
	}
	shape := uint64(s.Kind) | (uint64(s.Op)|uint64(s.Root)<<shapeOpBits)<<shapeKindBits
	return n | (uint64(call)|shape<<shapeCallBits)<<shapeLengthBits
}

// Hash returns a hash of the counts of blocks, in the place of a root: a call with counts that must
// be the same at all ranks has no root.
func Hash(counts []int) int {
	h := uint64(len(counts))
	for _, n := range counts {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return int(h >> (64 - shapeRootBits))
}

// Packed is a call as Shape.Pack returns it, with the hash of the earlier calls above it.
type Packed uint64

func (x Packed) length() int { return int(x & (1<<shapeLengthBits - 1)) }

func (x Packed) call() perf.Op { return perf.Op(x >> shapeLengthBits) }

func (x Packed) shape() Shape {
	x >>= shapeLengthBits + shapeCallBits
	s := Shape{Kind: datatype.Kind(x & (1<<shapeKindBits - 1))}
	x >>= shapeKindBits
	s.Op = uint8(x & (1<<shapeOpBits - 1))
	s.Root = int(x >> shapeOpBits & (1<<shapeRootBits - 1))
	return s
}

// earlier returns the hash of the earlier calls.
func (x Packed) earlier() uint64 { return uint64(x) >> coll.CallBits }

// rooted reports whether the call has a root.
func (x Packed) rooted() bool {
	return slices.Contains([]perf.Op{perf.Bcast, perf.Reduce, perf.Gather, perf.Scatter}, x.call().Blocking())
}

// String returns the call in words: "Allreduce of 11 elements of float64 (sum)".
func (x Packed) String() string {
	text, s := x.call().String(), x.shape()
	switch size := s.Kind.Size(); {
	case s.Kind == 0 && x.length() == 0:
	case s.Kind == 0 && x.length() > shapeLengthMax:
		text += fmt.Sprintf(" of more than %d bytes", shapeLengthMax)
	case s.Kind == 0: // an immediate call
		text += fmt.Sprintf(" of %d bytes", x.length())
	case s.Kind == KindData:
		text += x.dataText()
	case x.length() > shapeLengthMax:
		text += fmt.Sprintf(" of more than %d elements of %v", shapeLengthMax/max(size, 1), s.Kind)
	default:
		text += fmt.Sprintf(" of %d elements of %v", x.length()/max(size, 1), s.Kind)
	}
	switch {
	case s.Op == OpNone, s.Kind == KindData:
	case s.Op == OpUser:
		text += " (an operation of the program)"
	case s.Op == OpCommutative:
		text += " (a commutative operation of the program)"
	default:
		text += fmt.Sprintf(" (%v)", reduction.Op(s.Op))
	}
	if x.rooted() {
		text += fmt.Sprintf(" with root %d", s.Root)
	}
	return text
}

// dataText describes the elements of a call that are not numbers.
func (x Packed) dataText() string {
	text := fmt.Sprintf(" of %d bytes of %s", x.length(), MixedName)
	if x.length() > shapeLengthMax {
		text = fmt.Sprintf(" of more than %d bytes of %s", shapeLengthMax, MixedName)
	}
	return text + fmt.Sprintf(" (signature %x)", x.shape().Op)
}

// Mismatch is the error of a collective whose ranks have made different calls.
type Mismatch struct {
	Ranks [2]int    // the rank that has found it, and another one
	Calls [2]Packed // of these ranks
}

// Difference returns the first difference, as Judge finds it for calls without blocks.
func (m *Mismatch) Difference() Difference {
	x, y := m.Calls[0].shape(), m.Calls[1].shape()
	switch {
	case m.Calls[0].call() != m.Calls[1].call():
		return Calls
	case x.Root != y.Root:
		return Roots
	case x.Kind != y.Kind:
		return Types
	// The bits of op belong to the signature here, and another length may explain another
	// signature.
	case x.Kind == KindData && m.Calls[0].length() != m.Calls[1].length():
		return Counts
	case x.Kind == KindData && x.Op>>1 != y.Op>>1:
		return Types
	case x.Op != y.Op:
		return Ops
	case m.Calls[0].length() != m.Calls[1].length():
		return Counts
	}
	return Calls // the calls before
}

// Error names both calls, and says how to get their source lines.
func (m *Mismatch) Error() string {
	x, y := m.Calls[0], m.Calls[1]
	text := fmt.Sprintf("%v (rank %d) against %v (rank %d)", x, m.Ranks[0], y, m.Ranks[1])
	if x.earlier() != y.earlier() {
		text += ", after earlier collectives that differed"
	}
	return text + "; no collective succeeds on this communicator any more. Run with ibrun --check for the source lines"
}
