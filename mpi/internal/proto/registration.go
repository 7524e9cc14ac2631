package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/regcache"
)

// Preregister registers b with every device that needs it, so that the first message from or to b need not. Like any other
// registration in the cache, this one may be evicted.
func (e *Engine) Preregister(b []byte) error {
	return e.eachCache(func(c *regcache.Cache) error {
		m, err := c.Acquire(b)
		if err != nil {
			return err
		}
		return c.Release(m)
	})
}

// Registration is memory that is registered until Deregister, with each device that needs it.
type Registration struct{ release []func() error }

// Register registers b with every device that needs it.
func (e *Engine) Register(b []byte) (*Registration, error) {
	g := new(Registration)
	err := e.eachCache(func(c *regcache.Cache) error {
		m, err := c.Register(b)
		if err == nil {
			g.release = append(g.release, func() error { return c.Release(m) })
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.Deregister(g))
	}
	return g, nil
}

// Deregister ends a registration.
func (e *Engine) Deregister(g *Registration) error {
	e.lock()
	defer e.unlock()
	var errs []error
	for _, release := range g.release {
		errs = append(errs, release())
	}
	g.release = nil
	return errors.Join(errs...)
}

// eachCache calls f for the registration cache of each device.
func (e *Engine) eachCache(f func(*regcache.Cache) error) error {
	e.lock()
	defer e.unlock()
	for _, x := range e.paths {
		if x.regs == nil {
			continue
		}
		if err := f(x.regs); err != nil {
			return err
		}
	}
	return nil
}
