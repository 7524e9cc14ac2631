package mpi

import (
	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/core"
)

// TypeKeyval is a key for attributes of type T on datatypes, as [Keyval] is one for communicators. It belongs to the process that
// created it; a datatype has the attributes of one process. The zero TypeKeyval is not a key. MPI-5.0 §7.7.4.
type TypeKeyval[T any] struct {
	key  attrs.Keyval[*core.Datatype, T]
	proc *core.Process // nil for the zero TypeKeyval
}

// NewTypeKeyval creates a key for datatypes. copy is called by Dup: it gets the datatype and the attribute, and returns the
// attribute of the new datatype and whether it has one. nil means TypeNullCopy. del is called when an attribute is deleted or
// replaced, or when its datatype is freed. nil means TypeNullDelete. A callback that returns an error or panics fails the call
// that ran it. If p is nil, the result is the zero TypeKeyval, whose methods fail with ErrKeyval. MPI-5.0 §7.7.4.
func NewTypeKeyval[T any](
	p *Process, copy func(old *Datatype, value T) (copied T, keep bool, err error), del func(t *Datatype, value T) error,
) TypeKeyval[T] {
	if p.core().IsNone() {
		return TypeKeyval[T]{}
	}
	var coreCopy attrs.CopyFunc[*core.Datatype, T]
	if copy != nil {
		coreCopy = func(old *core.Datatype, value T) (T, bool, error) { return copy((*Datatype)(old), value) }
	}
	var coreDelete attrs.DeleteFunc[*core.Datatype, T]
	if del != nil {
		coreDelete = func(t *core.Datatype, value T) error { return del((*Datatype)(t), value) }
	}
	return TypeKeyval[T]{attrs.NewKeyval(p.core().TypeKeys(), coreCopy, coreDelete), p.core()}
}

// TypeNullCopy is a copy callback that gives the new datatype no attribute. MPI-5.0 §7.7.4.
func TypeNullCopy[T any](_ *Datatype, _ T) (none T, keep bool, err error) { return none, false, nil }

// TypeDupCopy is a copy callback that gives the new datatype the same value. MPI-5.0 §7.7.4.
func TypeDupCopy[T any](_ *Datatype, value T) (copied T, keep bool, err error) {
	return value, true, nil
}

// TypeNullDelete is a delete callback that does nothing. MPI-5.0 §7.7.4.
func TypeNullDelete[T any](_ *Datatype, _ T) error { return nil }

// Number returns an integer that no other key of datatypes of the process has at the same time; KeyvalInvalid for the zero
// TypeKeyval. MPI-5.0 §7.7.4.
func (k TypeKeyval[T]) Number() int { return k.key.Number() }

// Set attaches a value to t. An existing value is deleted first; if its callback fails, Set fails and the old value stays. It
// fails with ErrType for a predefined datatype and for that of a Go type: Dup returns one that can have attributes.
// MPI-5.0 §7.7.4.
func (k TypeKeyval[T]) Set(t *Datatype, value T) error {
	const op = "TypeKeyval.Set"
	a, err := t.core().MutableAttrs(op, k.proc)
	if err == nil {
		err = k.proc.TypeAttrError(op, k.key.Set(a, value))
	}
	return public(err)
}

// Get returns the value attached to t, and false if there is none. MPI-5.0 §7.7.4.
func (k TypeKeyval[T]) Get(t *Datatype) (value T, ok bool, err error) {
	const op = "TypeKeyval.Get"
	a, err := t.core().Attrs(op, k.proc)
	if err != nil || a == nil {
		return value, false, public(err)
	}
	if value, ok, err = k.key.Get(a); err != nil {
		err = public(k.proc.TypeAttrError(op, err))
	}
	return value, ok, err
}

// Delete removes the value attached to t. If the callback fails, Delete fails and the value stays. Without a value it does
// nothing. MPI-5.0 §7.7.4.
func (k TypeKeyval[T]) Delete(t *Datatype) error {
	const op = "TypeKeyval.Delete"
	a, err := t.core().Attrs(op, k.proc)
	if err != nil || a == nil {
		return public(err)
	}
	return public(k.proc.TypeAttrError(op, k.key.Delete(a)))
}

// Free releases the key and sets *k to the zero TypeKeyval. Attached values stay, and can be read and deleted with a copy of the
// key. Their callbacks still run. MPI-5.0 §7.7.4.
func (k *TypeKeyval[T]) Free() error {
	err := public(core.FreeKeyval("TypeKeyval.Free", 0, k.key.Free))
	if err == nil {
		*k = TypeKeyval[T]{}
	}
	return err
}
