package core

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Elements are the elements of a collective: numbers of a kind, or other data.
type Elements struct {
	kind datatype.Kind
	data *elementData // nil for numbers
}

// elementData are elements that are not numbers: values of a Go type, or the packed data of a view.
type elementData struct {
	size int                // bytes of an element in memory; 1 for a view
	sig  datatype.Signature // of an element; for a view, of the data of one rank
	name string             // of the Go type; empty for a view
	err  error              // why the Go type is not a type of elements
	// value and location are the kinds of the two fields of a pair, for MinLoc and MaxLoc; 0 for
	// other elements.
	value, location datatype.Kind
	// parts has the signatures of the blocks of a call whose blocks differ, if calls are checked.
	// size is 1 then.
	parts *checking.Parts
}

// numbersOf returns the elements of type T, which must be a number or bool.
func numbersOf[T any]() Elements { return Elements{kind: KindOf[T]()} }

// Numbers is numbersOf for any type. ok reports whether T is a number or bool.
func Numbers[T any]() (k Elements, ok bool) {
	kind := KindOf[T]()
	return Elements{kind: kind}, kind != 0
}

// ValuesOf returns the elements of type T as reductions take them: whole values in memory, padding
// included. If T has pointers or no data, every reduction of them is an error.
func ValuesOf[T any]() Elements {
	if k, ok := Numbers[T](); ok {
		return k
	}
	return goElements(reflect.TypeFor[T]())
}

var errNoData = errors.New("the type has no data, so nothing can be reduced")

// goElements returns the elements of a Go type. Each type has one *elementData, so equal pointers
// are equal types.
func goElements(rt reflect.Type) Elements {
	if d, ok := shared.values.Load(rt); ok {
		return Elements{data: d.(*elementData)}
	}
	// Sizes are divisors, also those of types without data, which are refused later.
	made := &elementData{size: max(1, int(rt.Size())), name: rt.String()}
	t, err := ElementsOf(rt)
	if made.err = err; err == nil {
		made.sig, _ = t.SignatureOf(t.Size())
		if t.Size() == 0 {
			made.err = fmt.Errorf("%s: %w", made.name, errNoData)
		}
	}
	if rt.Kind() == reflect.Struct && rt.NumField() == 2 && made.err == nil {
		made.value, made.location = datatype.KindOf(rt.Field(0).Type), datatype.KindOf(rt.Field(1).Type)
	}
	// Of two goroutines that make the same one, both take the first: userOp compares elements by
	// their pointers.
	d, _ := shared.values.LoadOrStore(rt, made)
	return Elements{data: d.(*elementData)}
}

// Size returns the bytes of an element.
func (e Elements) Size() int {
	if e.data != nil {
		return e.data.size
	}
	return e.kind.Size()
}

// String returns the name of the elements in messages.
func (e Elements) String() string {
	switch {
	case e.data == nil:
		return e.kind.String()
	case e.data.name == "":
		return checking.MixedName
	}
	return e.data.name
}

// signature returns the text by which checked calls compare data that is not numbers: the same for
// the same sequence of numbers.
func (e Elements) signature(bytes int) string {
	if e.data == nil {
		return ""
	}
	s := e.data.sig
	if e.data.name != "" {
		s = s.Repeat(int64(bytes / e.data.size))
	}
	return fmt.Sprintf("%x:%x", s.Count, s.Hash)
}

// shape returns what the ranks of a collective in shared memory compare.
func (e Elements) shape(op uint8, root int) checking.Shape {
	if e.data == nil {
		return checking.Shape{Kind: e.kind, Op: op, Root: root}
	}
	return checking.ShapeOfData(e.data.sig, op, root)
}

// shmReduction is shmFor for a reduction.
func (g *collState) shmReduction(what coll.Collective, bytes int, k Elements, o Op, root int) *coll.Shm {
	if k.Size() > coll.MaxSharedElement || g.deterministic.Load() {
		return nil
	}
	return g.shmFor(what, bytes, k.shape(opCode(o), root))
}

// OfKind returns numbers of a kind.
func OfKind(k datatype.Kind) Elements { return Elements{kind: k} }
