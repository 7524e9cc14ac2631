package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// BsendOverhead is the maximum number of bytes that a message uses in the attached buffer beside its data.
// MPI-5.0 §3.6.
const BsendOverhead = core.BsendOverhead

// BufferAttach provides buf as memory for buffered sends until BufferDetach. Each message uses its length and at most
// BsendOverhead bytes more. MPI-5.0 §3.6.
func (p *Process) BufferAttach(buf []byte) error { return public(p.core().BufferAttach(buf)) }

// BufferDetach blocks until all buffered messages have left, and returns the buffer. MPI-5.0 §3.6.
func (p *Process) BufferDetach() ([]byte, error) { return public2(p.core().BufferDetach()) }
