package core

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// Op is a reduction operation: a predefined one, or a user-defined one from NewOp.
type Op interface {
	// kernel returns the function for an element kind; ok is false if the operation is not defined on it.
	kernel(k datatype.Kind) (f reduction.Func, commutative, ok bool)
}

// Predefined is a predefined operation. All are commutative.
type Predefined uint8

// The predefined operations. Sum and Prod are defined on numbers; Min and Max on numbers except complex ones; the logical
// and the bitwise operations on integers (0 is false) and bool.
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

// NewOp creates an operation on elements of a kind. f sets dst[i] = a[i] op b[i]; see [reduction.User].
func NewOp(k datatype.Kind, commutative bool, f reduction.Func) Op { return &userOp{k, commutative, f} }

// kinds maps Go's kinds to element kinds of messages. KindOf handles the kinds whose size depends on the machine.
var kinds = [...]datatype.Kind{
	reflect.Bool: datatype.Bool, reflect.Int8: datatype.Int8, reflect.Int16: datatype.Int16, reflect.Int32: datatype.Int32,
	reflect.Int64: datatype.Int64, reflect.Uint8: datatype.Uint8, reflect.Uint16: datatype.Uint16,
	reflect.Uint32: datatype.Uint32, reflect.Uint64: datatype.Uint64, reflect.Float32: datatype.Float32,
	reflect.Float64: datatype.Float64, reflect.Complex64: datatype.Complex64, reflect.Complex128: datatype.Complex128,
}

// KindOf returns the element kind of T, which must be a number or bool.
func KindOf[T any]() datatype.Kind {
	switch t := reflect.TypeFor[T](); {
	case t.Kind() != reflect.Int && t.Kind() != reflect.Uint && t.Kind() != reflect.Uintptr:
		return kinds[t.Kind()]
	case t.Kind() == reflect.Int && t.Size() == 8:
		return datatype.Int64
	case t.Kind() == reflect.Int:
		return datatype.Int32
	case t.Size() == 8:
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
		return c.newError(op, ErrOp, fmt.Errorf("%s is not defined on %v", describeOp(o), k))
	}
	c.coll.operation = coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return nil
}
