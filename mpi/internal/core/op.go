package core

import (
	"errors"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// Op is a reduction operation: a predefined one, or a user-defined one from NewOp.
type Op interface {
	// kernel returns the function for elements; ok is false if the operation is not defined on it.
	kernel(k Elements) (f reduction.Func, commutative, ok bool)
}

// Predefined is a predefined operation. All are commutative.
type Predefined uint8

// The predefined operations. Sum and Prod are defined on numbers; Min and Max on numbers except
// complex ones; the logical and the bitwise operations on integers (0 is false) and bool.
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

	// Of structs with two fields: a number that is not complex, and its location, an int32, int64
	// or int.
	MinLoc = Predefined(reduction.MinLoc)
	MaxLoc = Predefined(reduction.MaxLoc)
)

// String returns the operation's name in lower case.
func (o Predefined) String() string { return reduction.Op(o).String() }

func (o Predefined) kernel(k Elements) (reduction.Func, bool, bool) {
	if k.data != nil {
		f, ok := reduction.LookupLoc(reduction.Op(o), k.data.value, k.data.location)
		return f, true, ok
	}
	f, ok := reduction.Lookup(reduction.Op(o), k.kind)
	return f, true, ok
}

// userOp is a user-defined operation.
type userOp struct {
	elements    Elements
	commutative bool
	f           reduction.Func
}

func (o *userOp) kernel(k Elements) (reduction.Func, bool, bool) {
	return o.f, o.commutative, k == o.elements
}

// NewOp creates an operation on elements. f sets dst[i] = a[i] op b[i]; see [reduction.User].
func NewOp(k Elements, commutative bool, f reduction.Func) Op { return &userOp{k, commutative, f} }

// KindOf returns the element kind of T; 0 if it is neither a number nor bool. For the most frequent
// types it calls no other function.
func KindOf[T any]() datatype.Kind {
	switch any((*T)(nil)).(type) {
	case *float64:
		return datatype.Float64
	case *float32:
		return datatype.Float32
	case *int32:
		return datatype.Int32
	case *int64:
		return datatype.Int64
	case *byte:
		return datatype.Uint8
	}
	return datatype.KindOf(reflect.TypeFor[T]())
}

// IsNumber reports whether T is a number or bool, which are elements of messages with a Kind.
func IsNumber[T any]() bool {
	// reflect numbers these kinds one after the other. A kind below Bool wraps around to a large
	// number.
	return reflect.TypeFor[T]().Kind()-reflect.Bool <= reflect.Complex128-reflect.Bool
}

// setOperation sets x to the operation o on elements k.
func setOperation(x *coll.Operation, k Elements, o Op) error {
	if o == nil {
		return WithClass(ErrOp, errors.New("the operation is nil"))
	}
	// Before the kernel: why a Go type has no elements says more than that the operation is not
	// defined on it.
	if k.data != nil && k.data.err != nil {
		return WithClass(ErrType, k.data.err)
	}
	f, commutative, ok := o.kernel(k)
	if !ok {
		return faultf(ErrOp, "%s is not defined on %v", describeOp(o), k)
	}
	_, predefined := o.(Predefined)
	*x = coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative, Foreign: !predefined}
	return nil
}
