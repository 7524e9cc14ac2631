package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// registrations are the registrations made by Register.
type registrations struct {
	mu  sync.Mutex
	all []registration
}

type registration struct {
	buf  []byte // keeps Go's own memory reachable
	pins *proto.Registration
}

// Preregister registers Go's memory with the devices that transfer large messages, until it is collected. Its errors are those
// of Alloc.
func (p *Process) Preregister(b []byte) error {
	if err := p.engine.Memory().Preregister(b); err != nil {
		return p.newError("Alloc", ErrNoMem, err)
	}
	return nil
}

// Register registers memory with the devices until Unregister or Finalize.
func (p *Process) Register(b []byte) error {
	if err := p.checkUsable("Register"); err != nil {
		return err
	}
	pins, err := p.engine.Memory().Register(b)
	if err != nil {
		return p.newError("Register", ErrNoMem, err)
	}
	p.registered.mu.Lock()
	defer p.registered.mu.Unlock()
	p.registered.all = append(p.registered.all, registration{b, pins})
	return nil
}

// Unregister undoes one Register of the same memory.
func (p *Process) Unregister(b []byte) error {
	if err := p.checkUsable("Unregister"); err != nil {
		return err
	}
	k := &p.registered
	k.mu.Lock()
	i := slices.IndexFunc(k.all, func(r registration) bool {
		return len(r.buf) == len(b) && (len(b) == 0 || sameStart(r.buf, b))
	})
	if i < 0 {
		k.mu.Unlock()
		return p.newError("Unregister", ErrBuffer, errors.New("the slice is not registered"))
	}
	pins := k.all[i].pins
	k.all = slices.Delete(k.all, i, i+1)
	k.mu.Unlock()
	if err := p.engine.Memory().Deregister(pins); err != nil {
		return p.newError("Unregister", ErrOther, err)
	}
	return nil
}

// CheckLength returns the error of Alloc for a negative number of elements, or if there is no process.
func (p *Process) CheckLength(n int) error {
	if err := p.checkUsable("Alloc"); err != nil {
		return err
	}
	if n < 0 {
		return p.newError("Alloc", ErrCount, fmt.Errorf("the number of elements, %d, is negative", n))
	}
	return nil
}
