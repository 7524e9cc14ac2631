package mpi

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// Op is a reduction operation: a predefined one, or a user-defined one from NewOp. MPI-5.0 §6.9.
type Op interface {
	// kernel returns the function for an element kind; ok is false if the operation is not defined on it.
	kernel(k datatype.Kind) (f reduction.Func, commutative, ok bool)
}

// Predefined is a predefined operation. All are commutative. MPI-5.0 §6.9.2.
type Predefined uint8

// The predefined operations. Sum and Prod are defined on numbers; Min and Max on numbers except complex ones; the logical
// and the bitwise operations on integers (0 is false) and bool. MPI-5.0 §6.9.2.
const (
	Sum  = Predefined(reduction.Sum)
	Min  = Predefined(reduction.Min)
	Max  = Predefined(reduction.Max)
	Prod = Predefined(reduction.Prod)
	Band = Predefined(reduction.Band)
	Bor  = Predefined(reduction.Bor)
	Bxor = Predefined(reduction.Bxor)
	Land = Predefined(reduction.Land)
	Lor  = Predefined(reduction.Lor)
	Lxor = Predefined(reduction.Lxor)
)

// String returns the operation's name in lower case.
func (o Predefined) String() string { return reduction.Op(o).String() }

func (o Predefined) kernel(k datatype.Kind) (reduction.Func, bool, bool) {
	f, ok := reduction.Lookup(reduction.Op(o), k)
	return f, true, ok
}

// userOp is a user-defined operation.
type userOp struct {
	kind        datatype.Kind
	commutative bool
	f           reduction.Func
}

func (o *userOp) kernel(k datatype.Kind) (reduction.Func, bool, bool) {
	return o.f, o.commutative, k == o.kind
}

// NewOp creates an operation on elements of type T. f sets dst[i] = dst[i] op src[i] for all i; the two slices have
// the same length and do not overlap. The operation must be associative. Unless commutative is set, operands are
// combined in the order of ranks, and dst contains those of the lower ranks. f may be called from any goroutine that
// calls a collective. MPI-5.0 §6.9.5.
func NewOp[T Elem](commutative bool, f func(dst, src []T)) Op {
	return &userOp{kindOf[T](), commutative, reduction.User(func(dst, src []byte) {
		f(elementsOf[T](dst), elementsOf[T](src))
	})}
}

// kinds maps Go's kinds to element kinds of messages. kindOf handles the kinds whose size depends on the machine.
var kinds = [...]datatype.Kind{
	reflect.Bool: datatype.Bool, reflect.Int8: datatype.Int8, reflect.Int16: datatype.Int16, reflect.Int32: datatype.Int32,
	reflect.Int64: datatype.Int64, reflect.Uint8: datatype.Uint8, reflect.Uint16: datatype.Uint16,
	reflect.Uint32: datatype.Uint32, reflect.Uint64: datatype.Uint64, reflect.Float32: datatype.Float32,
	reflect.Float64: datatype.Float64, reflect.Complex64: datatype.Complex64, reflect.Complex128: datatype.Complex128,
}

// kindOf returns the element kind of T.
func kindOf[T Elem]() datatype.Kind {
	switch k := reflect.TypeFor[T]().Kind(); {
	case k != reflect.Int && k != reflect.Uint && k != reflect.Uintptr:
		return kinds[k]
	case k == reflect.Int && sizeOf[T]() == 8:
		return datatype.Int64
	case k == reflect.Int:
		return datatype.Int32
	case sizeOf[T]() == 8:
		return datatype.Uint64
	}
	return datatype.Uint32
}

// setOperation sets the operation of a reduction on elements of a kind.
func (c *Comm) setOperation(op string, k datatype.Kind, o Op) error {
	if o == nil {
		return c.newError(op, ErrOp, errors.New("the operation is nil"))
	}
	f, commutative, ok := o.kernel(k)
	if !ok {
		return c.newError(op, ErrOp, fmt.Errorf("%v is not defined on %v", o, k))
	}
	c.coll.operation = coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return nil
}
