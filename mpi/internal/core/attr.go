package core

import (
	"slices"

	"github.com/ibrun/ibrun/attrs"
)

// maxAttributePasses limits how often callbacks may create communicators with attributes, or set
// attributes again, while all attributes are deleted.
const maxAttributePasses = 1000

// deleteAttributes deletes all attributes of the communicators of a session, or of the World Model
// if s is nil: those of Self first, then those of the newest communicator. Callbacks may free
// communicators, create others, and set attributes on any, which are deleted afterwards.
func (p *Process) deleteAttributes(s *Session) error {
	var errs []error
	// Each pass may create work for the next one. A callback that always does must not keep the
	// process from ending.
	for range maxAttributePasses {
		comms := p.comms.open(s)
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
			return join(errs...)
		}
	}
	return join(append(errs, attrs.ErrEndless)...)
}

// Keys returns the keys of attributes of the process's communicators.
func (p *Process) Keys() *attrs.Space[*Comm] { return &p.keys }

// Attrs returns the attributes of a communicator, or an error if it is not usable.
func (c *Comm) Attrs(op string) (*attrs.Cache[*Comm], error) {
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	return &c.attrs, nil
}

// MutableAttrs is Attrs for a call that sets or deletes an attribute. It returns an error if the
// attribute is predefined. key is 0 if it is not.
func (c *Comm) MutableAttrs(op string, key PredefinedKey) (*attrs.Cache[*Comm], error) {
	a, err := c.Attrs(op)
	if err == nil && key != 0 {
		return nil, c.newError(op, ErrKeyval, errPredefined)
	}
	return a, err
}

// AttrError wraps an error of package attrs; nil stays nil.
func (c *Comm) AttrError(op string, err error) error { return c.wrapError(op, err) }

// FreeKeyval calls free, which frees a key, for the call op. It returns an error if the key is
// predefined. key is 0 if it is not.
func FreeKeyval(op string, key PredefinedKey, free func() error) error {
	if key != 0 {
		return newError(op, ErrKeyval, errPredefined)
	}
	if err := free(); err != nil {
		return newError(op, ErrKeyval, err)
	}
	return nil
}
