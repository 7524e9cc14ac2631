package mpi

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Alloc returns n zeroed elements of memory for large messages: if a device transfers them, the memory is registered
// now and not with the first message. Otherwise it is ordinary memory: the garbage collector frees it, and any other
// slice can be sent and received as well. It fails with ErrNoMem if the system does not allow this amount to be
// pinned; the wrapped error contains the limit and how to raise it. Any goroutine may call it. MPI-5.0 §9.2
// (MPI_Alloc_mem).
func Alloc[T Elem](p *Process, n int) ([]T, error) {
	if n < 0 {
		return nil, p.newError("Alloc", ErrCount, fmt.Errorf("the number of elements, %d, is negative", n))
	}
	x := make([]T, n)
	if err := p.engine.Preregister(bytesOf(x)); err != nil {
		return nil, p.newError("Alloc", ErrNoMem, err)
	}
	return x, nil
}

// Register registers memory with the devices until Unregister or Finalize. It is for memory that Go does not own,
// such as a mapped file or buffers of a C library, which would otherwise be registered again for each message. The
// caller must not unmap or free it meanwhile. The same slice may be registered several times. It fails with ErrNoMem
// like [Alloc]. Any goroutine may call it. The standard has no such call; the nearest is MPI-5.0 §9.2.
func Register[T Elem](p *Process, x []T) error { return p.register(bytesOf(slices.Clip(x))) }

// Unregister undoes one Register of the same slice. It fails with ErrBuffer if the slice is not registered. Any
// goroutine may call it. The standard has no such call; the nearest is MPI-5.0 §9.2.
func Unregister[T Elem](p *Process, x []T) error { return p.unregister(bytesOf(slices.Clip(x))) }

// registrations are the registrations made by Register.
type registrations struct {
	mu  sync.Mutex
	all []registration
}

type registration struct {
	buf  []byte // keeps Go's own memory reachable
	pins *proto.Registration
}

func (p *Process) register(b []byte) error {
	pins, err := p.engine.Register(b)
	if err != nil {
		return p.newError("Register", ErrNoMem, err)
	}
	p.registered.mu.Lock()
	defer p.registered.mu.Unlock()
	p.registered.all = append(p.registered.all, registration{b, pins})
	return nil
}

func (p *Process) unregister(b []byte) error {
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
	if err := p.engine.Deregister(pins); err != nil {
		return p.newError("Unregister", ErrOther, err)
	}
	return nil
}
