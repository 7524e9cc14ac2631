package reduction

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Op is a predefined reduction operation. Its number is that of the MPI-5.0 ABI, which has gaps.
type Op uint8

// The predefined operations. All are commutative, and all are associative up to rounding.
const (
	Sum  Op = 0x21
	Min  Op = 0x22
	Max  Op = 0x23
	Prod Op = 0x24
	Band Op = 0x28
	Bor  Op = 0x29
	Bxor Op = 0x2a
	Land Op = 0x30
	Lor  Op = 0x31
	Lxor Op = 0x32

	firstOp = Sum
	lastOp  = Lxor
)

// String returns the name of the operation in lower case, such as "sum".
func (o Op) String() string {
	switch o {
	case Sum:
		return "sum"
	case Min:
		return "min"
	case Max:
		return "max"
	case Prod:
		return "prod"
	case Band:
		return "band"
	case Bor:
		return "bor"
	case Bxor:
		return "bxor"
	case Land:
		return "land"
	case Lor:
		return "lor"
	case Lxor:
		return "lxor"
	case MinLoc:
		return "minloc"
	case MaxLoc:
		return "maxloc"
	}
	return fmt.Sprintf("op %#x", uint8(o))
}

// Func combines two operands of the same length element by element: dst[i] = a[i] op b[i]. The three slices have the
// same number of bytes, a multiple of the element's size. dst either starts where a starts or overlaps neither operand.
// No alignment is needed on machines that load unaligned words, which amd64 and arm64 are.
type Func func(dst, a, b []byte)

// Lookup returns the reduction of two operands for an operation and a kind, and whether there is one.
func Lookup(op Op, kind datatype.Kind) (Func, bool) {
	if op < firstOp || op > lastOp || kind >= datatype.Kinds {
		return nil, false
	}
	r := &table[kind]
	if f := r.vector[op-firstOp]; f != nil && hasVector {
		return f, true
	}
	f := r.portable[op-firstOp]
	return f, f != nil
}

// User returns a Func that calls f, which must compute dst[i] = dst[i] op src[i]; dst is the left operand.
func User(f func(dst, src []byte)) Func {
	return func(dst, a, b []byte) {
		if len(dst) == 0 {
			return
		}
		if &dst[0] != &a[0] {
			copy(dst, a)
		}
		f(dst, b)
	}
}
