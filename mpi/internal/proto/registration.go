package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
)

// Memory registers memory of the program with the devices that need it.
type Memory struct {
	mu    *lock.Mutex // of the engine
	paths []*path
}

// Memory returns what registers memory for the engine.
func (e *Engine) Memory() Memory { return Memory{&e.mu, e.links.paths} }

// Preregister registers b with every device that needs it, so that the first message from or to b
// need not. Like any other registration in the cache, this one may be evicted.
func (m Memory) Preregister(b []byte) error {
	return m.eachCache(func(c *regcache.Cache) error {
		r, err := c.Acquire(b)
		if err != nil {
			return err
		}
		return c.Release(r)
	})
}

// Registration is memory that is registered until Deregister, with each device that needs it.
type Registration struct{ release []func() error }

// Register registers b with every device that needs it.
func (m Memory) Register(b []byte) (*Registration, error) {
	g := new(Registration)
	err := m.eachCache(func(c *regcache.Cache) error {
		r, err := c.Register(b)
		if err == nil {
			g.release = append(g.release, func() error { return c.Release(r) })
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.Deregister(g))
	}
	return g, nil
}

// Deregister ends a registration.
func (m Memory) Deregister(g *Registration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, release := range g.release {
		errs = append(errs, release())
	}
	g.release = nil
	return errors.Join(errs...)
}

// eachCache calls f for the registration cache of each device.
func (m Memory) eachCache(f func(*regcache.Cache) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.paths {
		if x.regs == nil {
			continue
		}
		if err := f(x.regs); err != nil {
			return err
		}
	}
	return nil
}
