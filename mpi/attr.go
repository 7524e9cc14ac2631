package mpi

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/attrs"
)

// Keyval is a key for attributes of type T on communicators. It can be compared and copied, and belongs to the
// process that created it. The zero Keyval is not a key, like MPI_KEYVAL_INVALID. MPI-5.0 §7.7.2.
//
// Callbacks may call any function, also for the same communicator; package attrs describes the effects. A callback
// that returns an error or panics fails the call that ran it.
type Keyval[T any] struct {
	key        attrs.Keyval[*Comm, T]
	predefined predefinedKey // not 0 for a predefined key; key is unused then
}

// KeyvalInvalid is the Number of the zero Keyval. MPI-5.0 §7.7.2.
const KeyvalInvalid = 0

// NewKeyval creates a key for all communicators of the process. copy is called when a communicator is duplicated. It
// gets the communicator and the attribute, and returns the attribute of the duplicate and whether the duplicate has
// one. nil means NullCopy. del is called when an attribute is deleted or replaced, or when its communicator is freed.
// nil means NullDelete. MPI-5.0 §7.7.2.
func NewKeyval[T any](
	p *Process, copy func(old *Comm, value T) (copied T, keep bool, err error), del func(c *Comm, value T) error,
) Keyval[T] {
	return Keyval[T]{key: attrs.NewKeyval(&p.keys, copy, del)}
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
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if k.predefined != 0 {
		return c.newError(op, ErrKeyval, errPredefined)
	}
	return c.wrapError(op, k.key.Set(&c.attrs, value))
}

// Get returns the value attached to c, and false if there is none. MPI-5.0 §7.7.2.
func (k Keyval[T]) Get(c *Comm) (value T, ok bool, err error) {
	const op = "Keyval.Get"
	if c == nil || c.state.Load() != commReady {
		return value, false, c.checkUsable(op)
	}
	if k.predefined != 0 {
		value, ok = predefinedValue[T](c, k.predefined)
		return value, ok, nil
	}
	if value, ok, err = k.key.Get(&c.attrs); err != nil {
		err = c.wrapError(op, err)
	}
	return value, ok, err
}

// Delete removes the value attached to c. If the callback fails, Delete fails and the value stays. Without a value it
// does nothing. MPI-5.0 §7.7.2.
func (k Keyval[T]) Delete(c *Comm) error {
	const op = "Keyval.Delete"
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if k.predefined != 0 {
		return c.newError(op, ErrKeyval, errPredefined)
	}
	return c.wrapError(op, k.key.Delete(&c.attrs))
}

// Free releases the key and sets *k to the zero Keyval. Attached values stay, and can be read and deleted with a copy
// of the key. Their callbacks still run, until the last value is deleted. MPI-5.0 §7.7.2.
func (k *Keyval[T]) Free() error {
	if k.predefined != 0 {
		return newError("Keyval.Free", ErrKeyval, errPredefined)
	}
	if err := k.key.Free(); err != nil {
		return newError("Keyval.Free", ErrKeyval, err)
	}
	return nil
}

// maxAttributePasses limits how often callbacks may create communicators with attributes, or set attributes again, while all
// attributes are deleted.
const maxAttributePasses = 1000

// deleteAttributes deletes all attributes of the communicators of a session, or of the World Model if s is nil: those of
// Self first, then those of the newest communicator. Callbacks may free communicators, create others, and set
// attributes on any, which are deleted afterwards.
func (p *Process) deleteAttributes(s *Session) error {
	var errs []error
	for range maxAttributePasses {
		comms := p.openComms(s)
		if slices.Contains(comms, p.self) {
			comms = append(comms, p.self) // first, because the list is processed backwards
		}
		found := false
		for _, c := range slices.Backward(comms) {
			if c.attrs.Len() > 0 {
				found = true
				errs = append(errs, c.attrs.Drop(c))
			}
		}
		if !found {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, attrs.ErrEndless)...)
}
