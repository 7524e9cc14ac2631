package core

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Datatype is a handle of a datatype. The type itself does not change; the handle can be named,
// have attributes, and be freed. It belongs to no process.
type Datatype struct {
	typ *datatype.Type
	// shared says that the type is predefined or that of a Go type. All processes in this program
	// have the same handle, so it cannot be freed or changed.
	shared bool
	freed  atomic.Bool
	name   atomic.Pointer[string]
	attrs  typeAttrs
}

var (
	errNoDatatype     = errors.New("the datatype is nil or the zero Datatype")
	errFreedDatatype  = errors.New("the datatype has been freed")
	errSharedDatatype = errors.New("the datatype is predefined or that of a Go type: change a copy, which Dup returns")
)

// Type returns the type for a call that uses it, or an error if there is none any more.
func (t *Datatype) Type(op string) (*datatype.Type, error) {
	switch {
	case t == nil || t.typ == nil:
		return nil, newError(op, ErrType, errNoDatatype)
	case t.freed.Load():
		return nil, newError(op, ErrType, errFreedDatatype)
	}
	return t.typ, nil
}

// owned is Type for a call that changes the handle.
func (t *Datatype) owned(op string) (*datatype.Type, error) {
	typ, err := t.Type(op)
	if err == nil && t.shared {
		return nil, newError(op, ErrType, errSharedDatatype)
	}
	return typ, err
}

// TypeError wraps an error of package datatype; nil stays nil.
func TypeError(op string, err error) error {
	if err == nil {
		return nil
	}
	return newError(op, typeErrorClass(err), err)
}

// typeErrorClass returns the class of an error of package datatype.
func typeErrorClass(err error) Class {
	switch {
	case errors.Is(err, datatype.ErrNegativeCount):
		return ErrCount
	case errors.Is(err, datatype.ErrBounds):
		return ErrBuffer
	case errors.Is(err, datatype.ErrTruncated):
		return ErrTruncate
	case errors.Is(err, datatype.ErrNoType), errors.Is(err, datatype.ErrNamed), errors.Is(err, datatype.ErrNotCommitted),
		errors.Is(err, datatype.ErrOverlap), errors.Is(err, datatype.ErrNoElement):
		return ErrType
	}
	return ErrArg
}

// Commit makes the type ready to move data. Further calls have no effect.
func (t *Datatype) Commit() error {
	typ, err := t.Type("Datatype.Commit")
	if err == nil {
		typ.Commit()
	}
	return err
}

// Free deletes the attributes and ends the use of the handle. Data that moves already is not
// affected, and neither are types that were made of this one. If a callback fails, the type stays.
func (t *Datatype) Free() error {
	const op = "Datatype.Free"
	if _, err := t.owned(op); err != nil {
		return err
	}
	// The callbacks run while the handle is valid, since they get it, and one that fails keeps the
	// type alive.
	if err := t.attrs.clear(op); err != nil {
		return err
	}
	// A callback, or another goroutine, may have freed it meanwhile.
	if t.freed.Swap(true) {
		return newError(op, ErrType, errFreedDatatype)
	}
	return nil
}

// Dup returns a new handle of the same type, with the attributes that the copy callbacks return. It
// is committed if t is.
func (t *Datatype) Dup() (*Datatype, error) {
	const op = "Datatype.Dup"
	typ, err := t.Type(op)
	if err != nil {
		return nil, err
	}
	if typ, err = datatype.Dup(typ); err != nil {
		return nil, TypeError(op, err)
	}
	d := &Datatype{typ: typ}
	if err := t.attrs.copyTo(op, d); err != nil {
		return nil, err
	}
	return d, nil
}

// SetName names the handle. Longer names are cut to MaxObjectName bytes.
func (t *Datatype) SetName(name string) error {
	if _, err := t.owned("Datatype.SetName"); err != nil {
		return err
	}
	name = cutName(name)
	t.name.Store(&name)
	return nil
}

// Name returns the name: that of the standard or of the Go type if it is shared.
func (t *Datatype) Name() (string, error) {
	typ, err := t.Type("Datatype.Name")
	if err != nil {
		return "", err
	}
	if name := t.name.Load(); name != nil {
		return *name, nil
	}
	return typ.Name(), nil
}

// String describes the type: its name, or how it was made.
func (t *Datatype) String() string {
	switch {
	case t == nil || t.typ == nil:
		return "no datatype"
	case t.freed.Load():
		return "freed datatype"
	}
	if name := t.name.Load(); name != nil && *name != "" {
		return *name
	}
	return t.typ.String()
}

// sharedTypes are the handles of predefined types and of Go types, and lists that are used again.
// The handles are found by the type, so each has one handle.
type sharedTypes struct {
	elements datatype.GoTypes
	handles  sync.Map // of *datatype.Type to *Datatype
	values   sync.Map // of reflect.Type to *elementData, see goElements

	buffers sync.Pool // of *Buffers
}

// shared remembers what follows from Go types and tables alone, so that it is computed once. Its
// lists have no data.
var shared = sharedTypes{}

func (s *sharedTypes) handle(t *datatype.Type) *Datatype {
	if h, ok := s.handles.Load(t); ok {
		return h.(*Datatype)
	}
	h, _ := s.handles.LoadOrStore(t, &Datatype{typ: t, shared: true})
	return h.(*Datatype)
}

// known returns the handle of t if t is shared.
func (s *sharedTypes) known(t *datatype.Type) (*Datatype, bool) {
	if combiner, _, _, _ := t.Envelope(); combiner == datatype.CombinerNamed {
		return s.handle(t), true
	}
	h, ok := s.handles.Load(t)
	if !ok {
		return nil, false
	}
	return h.(*Datatype), true
}

// ElementsOf returns the type of the values of a Go type as elements of messages.
func ElementsOf(rt reflect.Type) (*datatype.Type, error) { return shared.elements.Of(rt) }

// ElementsFor is ElementsOf for a type that is known at compile time.
func ElementsFor[T any]() (*datatype.Type, error) {
	if k := KindOf[T](); k != 0 {
		return datatype.OfKind(k), nil
	}
	return ElementsOf(reflect.TypeFor[T]())
}

// TypeOf returns the handle of the type of a Go type.
func TypeOf(op string, rt reflect.Type) (*Datatype, error) {
	t, err := ElementsOf(rt)
	if err != nil {
		return nil, TypeError(op, err)
	}
	return shared.handle(t), nil
}

// TypeNamed returns a predefined type by its name in the standard.
func TypeNamed(name string) (*Datatype, error) {
	t := datatype.Named(name)
	if t == nil {
		return nil, newError("TypeNamed", ErrArg, fmt.Errorf("there is no datatype %q", name))
	}
	return shared.handle(t), nil
}

// TypeMatchSize returns the predefined type of a class of numbers with a size in bytes.
func TypeMatchSize(class datatype.Class, size int) (*Datatype, error) {
	t, err := datatype.MatchSize(class, size)
	if err != nil {
		return nil, TypeError("TypeMatchSize", err)
	}
	return shared.handle(t), nil
}

// Size returns the bytes of the elements, without gaps.
func (t *Datatype) Size() (int, error) {
	typ, err := t.Type("Datatype.Size")
	if err != nil {
		return 0, err
	}
	return int(typ.Size()), nil
}

// Extent returns the lower bound and the extent in bytes.
func (t *Datatype) Extent() (lb, extent int, err error) {
	typ, err := t.Type("Datatype.Extent")
	if err != nil {
		return 0, 0, err
	}
	l, e := typ.Extent()
	return int(l), int(e), nil
}

// TrueExtent returns the lowest displacement of data and the distance from there to the end of the
// highest, in bytes.
func (t *Datatype) TrueExtent() (lb, extent int, err error) {
	typ, err := t.Type("Datatype.TrueExtent")
	if err != nil {
		return 0, 0, err
	}
	l, e := typ.TrueExtent()
	return int(l), int(e), nil
}

// Committed reports whether the type can move data.
func (t *Datatype) Committed() bool {
	return t != nil && t.typ != nil && !t.freed.Load() && t.typ.Committed()
}

// NewError returns the error of a call of the front end that belongs to no process.
func NewError(op string, class Class, err error) error { return newError(op, class, err) }

// PackSize returns the bytes of count elements of a size.
func PackSize(op string, count int, size int64) (int, error) {
	switch {
	case count < 0:
		return 0, newError(op, ErrCount, fmt.Errorf("%d elements", count))
	case size > 0 && int64(count) > math.MaxInt64/size:
		return 0, newError(op, ErrArg, fmt.Errorf("%d elements of %d bytes: %w", count, size, datatype.ErrOverflow))
	}
	return count * int(size), nil
}
