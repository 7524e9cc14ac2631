package mpi

import (
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/dtype"
)

// Op is a reduction: one of the predefined ones, or a user's from NewOp. MPI-5.0 §6.9.
type Op interface {
	// kernel finds the function for an element kind; ok is false where the operation is not defined on it.
	kernel(k dtype.Kind) (f dtype.Func, commutative, ok bool)
}

// Predefined is a predefined operation. All are commutative.
type Predefined dtype.Op

// The predefined operations. Sum and Prod are defined on numbers, Min and Max on all but complex ones, the logical
// ones on integers (0 is false) and bool, and the bitwise ones on these too. MPI-5.0 §6.9.2.
const (
	Sum  = Predefined(dtype.Sum)
	Min  = Predefined(dtype.Min)
	Max  = Predefined(dtype.Max)
	Prod = Predefined(dtype.Prod)
	Band = Predefined(dtype.Band)
	Bor  = Predefined(dtype.Bor)
	Bxor = Predefined(dtype.Bxor)
	Land = Predefined(dtype.Land)
	Lor  = Predefined(dtype.Lor)
	Lxor = Predefined(dtype.Lxor)
)

// String is the operation's name in lower case.
func (o Predefined) String() string { return dtype.Op(o).String() }

func (o Predefined) kernel(k dtype.Kind) (dtype.Func, bool, bool) {
	f, ok := dtype.Lookup(dtype.Op(o), k)
	return f, true, ok
}

// userOp is an operation made by a user.
type userOp struct {
	kind        dtype.Kind
	commutative bool
	f           dtype.Func
}

func (o *userOp) kernel(k dtype.Kind) (dtype.Func, bool, bool) {
	return o.f, o.commutative, k == o.kind
}

// NewOp makes an operation on elements of type T. f does dst[i] = dst[i] op src[i] for all i; the two slices are of
// the same length and do not overlap. It must be associative; unless commutative is set operands are taken in the
// order of ranks, dst being of the lower ones. f may be called from any goroutine that calls a collective.
// MPI-5.0 §6.9.5.
func NewOp[T Elem](commutative bool, f func(dst, src []T)) Op {
	return &userOp{kindOf[T](), commutative, dtype.User(func(dst, src []byte) {
		f(elementsOf[T](dst), elementsOf[T](src))
	})}
}

// kinds maps Go's kinds to those of messages. Those of a machine's width are the sized ones.
var kinds = [...]dtype.Kind{
	reflect.Bool: dtype.Bool, reflect.Int8: dtype.Int8, reflect.Int16: dtype.Int16, reflect.Int32: dtype.Int32,
	reflect.Int64: dtype.Int64, reflect.Uint8: dtype.Uint8, reflect.Uint16: dtype.Uint16,
	reflect.Uint32: dtype.Uint32, reflect.Uint64: dtype.Uint64, reflect.Float32: dtype.Float32,
	reflect.Float64: dtype.Float64, reflect.Complex64: dtype.Complex64, reflect.Complex128: dtype.Complex128,
}

// kindOf is the kind of T.
func kindOf[T Elem]() dtype.Kind {
	switch k := reflect.TypeFor[T]().Kind(); {
	case k != reflect.Int && k != reflect.Uint && k != reflect.Uintptr:
		return kinds[k]
	case k == reflect.Int && sizeOf[T]() == 8:
		return dtype.Int64
	case k == reflect.Int:
		return dtype.Int32
	case sizeOf[T]() == 8:
		return dtype.Uint64
	}
	return dtype.Uint32
}
