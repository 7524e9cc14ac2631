package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/regcache"
)

// Preregister registers b with every device that needs it, so that the first message from or to it need not. It may be forgotten
// again like any other registration.
func (e *Engine) Preregister(b []byte) error {
	return e.pins(func(c *regcache.Cache) error {
		m, err := c.Acquire(b)
		if err != nil {
			return err
		}
		return c.Release(m)
	})
}

// Registration are registrations for good, one for each device that needs one.
type Registration struct{ held []func() error }

// Register registers b for good with every device that needs it.
func (e *Engine) Register(b []byte) (*Registration, error) {
	k := new(Registration)
	err := e.pins(func(c *regcache.Cache) error {
		m, err := c.Register(b)
		if err == nil {
			k.held = append(k.held, func() error { return c.Release(m) })
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.Deregister(k))
	}
	return k, nil
}

// Deregister ends a Keep.
func (e *Engine) Deregister(k *Registration) error {
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
