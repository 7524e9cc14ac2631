package mpi

import (
	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Keyval is a key for attributes of type T on communicators. It can be compared and copied, and belongs to the
// process that created it. The zero Keyval is not a key, like MPI_KEYVAL_INVALID. MPI-5.0 §7.7.2.
//
// Callbacks may call any function, also for the same communicator; package attrs describes the effects. A callback
// that returns an error or panics fails the call that ran it.
type Keyval[T any] struct {
	key        attrs.Keyval[*core.Comm, T]
	predefined core.PredefinedKey // not 0 for a predefined key; key is unused then
}

// KeyvalInvalid is the Number of the zero Keyval. MPI-5.0 §7.7.2.
const KeyvalInvalid = 0

// NewKeyval creates a key for all communicators of the process. copy is called when a communicator is duplicated. It
// gets the communicator and the attribute, and returns the attribute of the duplicate and whether the duplicate has
// one. nil means NullCopy. del is called when an attribute is deleted or replaced, or when its communicator is freed.
// nil means NullDelete. If p is nil, it returns the zero Keyval, whose methods fail with ErrKeyval. MPI-5.0 §7.7.2.
func NewKeyval[T any](
	p *Process, copy func(old *Comm, value T) (copied T, keep bool, err error), del func(c *Comm, value T) error,
) Keyval[T] {
	if p.core().IsNone() {
		return Keyval[T]{}
	}
	var coreCopy attrs.CopyFunc[*core.Comm, T]
	if copy != nil {
		coreCopy = func(old *core.Comm, value T) (T, bool, error) { return copy((*Comm)(old), value) }
	}
	var coreDelete attrs.DeleteFunc[*core.Comm, T]
	if del != nil {
		coreDelete = func(c *core.Comm, value T) error { return del((*Comm)(c), value) }
	}
	return Keyval[T]{key: attrs.NewKeyval(p.core().Keys(), coreCopy, coreDelete)}
}

// NullCopy is a copy callback that gives the duplicate no attribute. MPI-5.0 §7.7.2.
func NullCopy[T any](_ *Comm, _ T) (none T, keep bool, err error) { return none, false, nil }

// DupCopy is a copy callback that gives the duplicate the same value. MPI-5.0 §7.7.2.
func DupCopy[T any](_ *Comm, value T) (copied T, keep bool, err error) { return value, true, nil }

// NullDelete is a delete callback that does nothing. MPI-5.0 §7.7.2.
func NullDelete[T any](_ *Comm, _ T) error { return nil }

// Number returns an integer that no other key of the process has at the same time; KeyvalInvalid for the zero Keyval.
// MPI-5.0 §7.7.2.
func (k Keyval[T]) Number() int {
	if k.predefined != 0 {
		return int(k.predefined)
	}
	return k.key.Number()
}

// Set attaches a value to c. An existing value is deleted first; if its callback fails, Set fails and the old value
// stays. Set, Get, Delete and Free are local. MPI-5.0 §7.7.2.
func (k Keyval[T]) Set(c *Comm, value T) error {
	const op = "Keyval.Set"
	a, err := c.core().MutableAttrs(op, k.predefined)
	if err == nil {
		err = c.core().AttrError(op, k.key.Set(a, value))
	}
	return public(err)
}

// Get returns the value attached to c, and false if there is none. MPI-5.0 §7.7.2.
func (k Keyval[T]) Get(c *Comm) (value T, ok bool, err error) {
	const op = "Keyval.Get"
	a, err := c.core().Attrs(op)
	if err != nil {
		return value, false, public(err)
	}
	if k.predefined != 0 {
		n, ok := core.PredefinedAttr(c.core(), k.predefined)
		if x, isInt := any(&value).(*int); isInt { // all predefined attributes are
			*x = n
		}
		return value, ok, nil
	}
	if value, ok, err = k.key.Get(a); err != nil {
		err = public(c.core().AttrError(op, err))
	}
	return value, ok, err
}

// Delete removes the value attached to c. If the callback fails, Delete fails and the value stays. Without a value it
// does nothing. MPI-5.0 §7.7.2.
func (k Keyval[T]) Delete(c *Comm) error {
	const op = "Keyval.Delete"
	a, err := c.core().MutableAttrs(op, k.predefined)
	if err == nil {
		err = c.core().AttrError(op, k.key.Delete(a))
	}
	return public(err)
}

// Free releases the key and sets *k to the zero Keyval. Attached values stay, and can be read and deleted with a copy
// of the key. Their callbacks still run, until the last value is deleted. MPI-5.0 §7.7.2.
func (k *Keyval[T]) Free() error {
	return public(core.FreeKeyval("Keyval.Free", k.predefined, k.key.Free))
}
