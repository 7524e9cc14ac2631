package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// Op is a reduction operation: a predefined one, or a user-defined one from NewOp. MPI-5.0 §6.9.
type Op interface{ core() core.Op }

// coreOp returns the operation; nil for nil.
func coreOp(o Op) core.Op {
	if o == nil {
		return nil
	}
	return o.core()
}

// Predefined is a predefined operation. All are commutative. MPI-5.0 §6.9.2.
type Predefined uint8

// The predefined operations. Sum and Prod are defined on numbers; Min and Max on numbers except complex ones; the logical
// and the bitwise operations on integers (0 is false) and bool. MPI-5.0 §6.9.2.
const (
	Sum  = Predefined(core.Sum)
	Min  = Predefined(core.Min)
	Max  = Predefined(core.Max)
	Prod = Predefined(core.Prod)
	Band = Predefined(core.Band)
	Bor  = Predefined(core.Bor)
	Bxor = Predefined(core.Bxor)
	Land = Predefined(core.Land)
	Lor  = Predefined(core.Lor)
	Lxor = Predefined(core.Lxor)

	// MinLoc and MaxLoc are defined on [Located] and other structs of two such fields. MPI-5.0 §6.9.4.
	MinLoc = Predefined(core.MinLoc)
	MaxLoc = Predefined(core.MaxLoc)
)

// Located is a value with its location, such as the rank that has it. The operation [MinLoc] gives the least value and the lowest
// location of those that have it, [MaxLoc] the greatest value. If a value is NaN, so is the result. The fields may
// have other names: the operations are defined on any struct of a number that is not complex and an int32, int64 or int.
// MPI-5.0 §6.9.4.
type Located[T Ordered] struct {
	Value T
	Index int32
}

// Ordered are the types of numbers that have an order.
type Ordered interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}

// String returns the operation's name in lower case.
func (o Predefined) String() string { return core.Predefined(o).String() }

func (o Predefined) core() core.Op { return core.Predefined(o) }

// userOp is a user-defined operation.
type userOp struct{ op core.Op }

func (o userOp) core() core.Op { return o.op }

// NewOp creates an operation on elements of type T: a number, or a struct or array without pointers. f sets
// dst[i] = dst[i] op src[i] for all i; the two slices have the same length and do not overlap. The operation must be
// associative. Unless commutative is set, operands are combined in the order of ranks, and dst contains those of the lower
// ranks. f may be called from any goroutine that calls a collective. If T has pointers, each reduction with the operation is an
// error of class ErrType. MPI-5.0 §6.9.5.
func NewOp[T any](commutative bool, f func(dst, src []T)) Op {
	return userOp{core.NewOp(core.ValuesOf[T](), commutative, reduction.User(func(dst, src []byte) {
		f(elementsOf[T](dst), elementsOf[T](src))
	}))}
}
