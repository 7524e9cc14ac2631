package mpi

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/attrs"
)

// Keyval is a key for attributes of type T on communicators. It is a value that can be compared and copied, and belongs
// to the process that made it; the zero Keyval is no key, as MPI_KEYVAL_INVALID. MPI-5.0 §7.7.2.
//
// Callbacks may call anything, for the same communicator too; package attrs tells what follows. One that fails by an
// error or a panic fails the call that made it run.
type Keyval[T any] struct {
	key        attrs.Keyval[*Comm, T]
	predefined predefinedKey // not 0: the key is predefined, and k is none
}

// KeyvalInvalid is the Number of no key. MPI-5.0 §7.7.2.
const KeyvalInvalid = 0

// NewKeyval makes a key, for all communicators of the process. When a communicator is duplicated, copy is called with
// it and its attribute, and returns that of the duplicate, and whether there is to be one; nil stands for NullCopy.
// When an attribute goes because it is deleted or replaced, or with its communicator, del is called; nil stands for
// NullDelete. MPI-5.0 §7.7.2.
func NewKeyval[T any](
	p *Process, copy func(old *Comm, value T) (copied T, keep bool, err error), del func(c *Comm, value T) error,
) Keyval[T] {
	return Keyval[T]{key: attrs.NewKeyval(&p.keys, copy, del)}
}

// NullCopy is a copy callback: the duplicate has no such attribute. MPI-5.0 §7.7.2.
func NullCopy[T any](_ *Comm, _ T) (none T, keep bool, err error) { return none, false, nil }

// DupCopy is a copy callback: the duplicate has the same value. MPI-5.0 §7.7.2.
func DupCopy[T any](_ *Comm, value T) (copied T, keep bool, err error) { return value, true, nil }

// NullDelete is a delete callback that does nothing. MPI-5.0 §7.7.2.
func NullDelete[T any](_ *Comm, _ T) error { return nil }

// Number is the key as an integer that no other key of the process has at the same time; KeyvalInvalid for the zero
// Keyval. MPI-5.0 §7.7.2.
func (k Keyval[T]) Number() int {
	if k.predefined != 0 {
		return int(k.predefined)
	}
	return k.key.Number()
}

// Set attaches a value to c. An earlier one is deleted first; if its callback fails, so does Set, and it stays. It is
// local, as are Get, Delete and Free. MPI-5.0 §7.7.2.
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
	if c == nil || c.freed.Load() {
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

// Delete removes the value attached to c. If the callback fails, so does Delete, and the value stays. It is no error
// if there is none. MPI-5.0 §7.7.2.
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

// Free gives the key up and makes *k the zero Keyval. Values that are attached stay, and can be read and deleted by a
// copy of the key; their callbacks run, until the last of them is gone. MPI-5.0 §7.7.2.
func (k *Keyval[T]) Free() error {
	if k.predefined != 0 {
		return newError("Keyval.Free", ErrKeyval, errPredefined)
	}
	if err := k.key.Free(); err != nil {
		return newError("Keyval.Free", ErrKeyval, err)
	}
	return nil
}

// deleteAttributes deletes all attributes of communicators, given in the order in which they were made: those of Self
// first, then the youngest communicator's.
func (p *Process) deleteAttributes(comms []*Comm) error {
	var errs []error
	if slices.Contains(comms, p.self) {
		errs = append(errs, p.self.attrs.Drop(p.self))
	}
	for _, c := range slices.Backward(comms) {
		errs = append(errs, c.attrs.Drop(c))
	}
	return errors.Join(errs...)
}
