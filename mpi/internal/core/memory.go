package core

import (
	"errors"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Registrations are the registrations of memory with the devices of a process. Any goroutine may
// call the methods. Their errors are faults. Those of nil do nothing: there is no process.
type Registrations struct {
	engine *proto.Engine

	mu  sync.Mutex
	all []registration // made by Register
}

// Registrations returns the registrations of the process; nil if there is none.
func (p *Process) Registrations() *Registrations {
	if p.IsNone() {
		return nil
	}
	return &p.registered
}

type registration struct {
	buf  []byte // keeps Go's own memory reachable
	pins *proto.Registration
}

// Preregister registers Go's memory with the devices that transfer large messages, until it is
// collected.
func (m *Registrations) Preregister(b []byte) error {
	if err := m.engine.Memory().Preregister(b); err != nil {
		return WithClass(ErrNoMem, err)
	}
	return nil
}

// Register registers memory with the devices until Unregister or Finalize.
func (m *Registrations) Register(b []byte) error {
	if m == nil {
		return nil
	}
	pins, err := m.engine.Memory().Register(b)
	if err != nil {
		return WithClass(ErrNoMem, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, registration{b, pins})
	return nil
}

// Unregister undoes one Register of the same memory.
func (m *Registrations) Unregister(b []byte) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	i := slices.IndexFunc(m.all, func(r registration) bool {
		return len(r.buf) == len(b) && (len(b) == 0 || sameStart(r.buf, b))
	})
	if i < 0 {
		m.mu.Unlock()
		return WithClass(ErrBuffer, errors.New("the slice is not registered"))
	}
	// Two registrations of the same memory are alike, so it does not matter which of them ends.
	pins := m.all[i].pins
	m.all = slices.Delete(m.all, i, i+1)
	// Without the lock: a device may take long, and the registration is in the list no more.
	m.mu.Unlock()
	if err := m.engine.Memory().Deregister(pins); err != nil {
		return WithClass(ErrOther, err)
	}
	return nil
}

// CheckLength returns the error of Alloc for a negative number of elements.
func CheckLength(n int) error {
	if n < 0 {
		return faultf(ErrCount, "the number of elements, %d, is negative", n)
	}
	return nil
}
