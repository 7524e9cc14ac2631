package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/regcache"
)

// Warm registers b with every device that needs it, so that the first message from or to it need not. It may be forgotten
// again like any other registration.
func (e *Engine) Warm(b []byte) error {
	return e.pins(func(c *regcache.Cache) error {
		m, err := c.Hold(b)
		if err != nil {
			return err
		}
		return c.Release(m)
	})
}

// Pins are registrations for good, one for each device that needs one.
type Pins struct{ held []func() error }

// Keep registers b for good with every device that needs it.
func (e *Engine) Keep(b []byte) (*Pins, error) {
	k := new(Pins)
	err := e.pins(func(c *regcache.Cache) error {
		m, err := c.Keep(b)
		if err == nil {
			k.held = append(k.held, func() error { return c.Release(m) })
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.Drop(k))
	}
	return k, nil
}

// Drop ends a Keep.
func (e *Engine) Drop(k *Pins) error {
	e.lock()
	defer e.unlock()
	var errs []error
	for _, release := range k.held {
		errs = append(errs, release())
	}
	k.held = nil
	return errors.Join(errs...)
}

// pins calls f for the registrations of each device.
func (e *Engine) pins(f func(*regcache.Cache) error) error {
	e.lock()
	defer e.unlock()
	for _, w := range e.ways {
		if w.pins == nil {
			continue
		}
		if err := f(w.pins); err != nil {
			return err
		}
	}
	return nil
}
