package core

import (
	"slices"

	"github.com/ibrun/ibrun/attrs"
)

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
			return join(errs...)
		}
	}
	return join(append(errs, attrs.ErrEndless)...)
}

// Keys returns the keys of attributes of the process's communicators.
func (p *Process) Keys() *attrs.Space[*Comm] { return &p.keys }

// Attrs returns the attributes of a communicator; nil if it is not usable.
func (c *Comm) Attrs() *attrs.Cache[*Comm] {
	if c == nil || c.state.Load() != commReady {
		return nil
	}
	return &c.attrs
}

// ChangeAttrs returns the attributes of a communicator for a call that changes the one with a key, which must not be predefined.
func (c *Comm) ChangeAttrs(op string, key PredefinedKey) (*attrs.Cache[*Comm], error) {
	if err := c.CheckUsable(op); err != nil {
		return nil, err
	}
	if key != 0 {
		return nil, c.newError(op, ErrKeyval, errPredefined)
	}
	return &c.attrs, nil
}

// AttrError returns the error of a call that has used the attributes; nil for nil.
func (c *Comm) AttrError(op string, err error) error { return c.wrapError(op, err) }

// FreeKey frees a key by calling free, unless it is predefined.
func FreeKey(key PredefinedKey, free func() error) error {
	const op = "Keyval.Free"
	if key != 0 {
		return newError(op, ErrKeyval, errPredefined)
	}
	if err := free(); err != nil {
		return newError(op, ErrKeyval, err)
	}
	return nil
}
