package mpi

import (
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Alloc returns n zeroed elements of memory for large messages: if a device transfers them, the memory is registered
// now and not with the first message. Otherwise it is ordinary memory: the garbage collector frees it, and any other
// slice can be sent and received as well. It fails with ErrNoMem if the system does not allow this amount to be
// pinned; the wrapped error contains the limit and how to raise it. Any goroutine may call it. MPI-5.0 §9.2
// (MPI_Alloc_mem).
func Alloc[T Elem](p *Process, n int) ([]T, error) {
	if err := result(p.core(), "Alloc", core.CheckLength(n)); err != nil {
		return nil, err
	}
	x := make([]T, n)
	if err := p.core().Registrations().Preregister(core.Bytes(x)); err != nil {
		return nil, result(p.core(), "Alloc", err)
	}
	return x, nil
}

// Register registers memory with the devices until Unregister or Finalize. It is for memory that Go does not own,
// such as a mapped file or buffers of a C library, which would otherwise be registered again for each message. The
// caller must not unmap or free it meanwhile. The same slice may be registered several times. It fails with ErrNoMem
// like [Alloc]. Any goroutine may call it. The standard has no such call; the nearest is MPI-5.0 §9.2.
func Register[T Elem](p *Process, x []T) error {
	return result(p.core(), "Register", p.core().Registrations().Register(core.Bytes(slices.Clip(x))))
}

// Unregister undoes one Register of the same slice. It fails with ErrBuffer if the slice is not registered. Any
// goroutine may call it. The standard has no such call; the nearest is MPI-5.0 §9.2.
func Unregister[T Elem](p *Process, x []T) error {
	return result(p.core(), "Unregister", p.core().Registrations().Unregister(core.Bytes(slices.Clip(x))))
}
