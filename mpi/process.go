package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Process is one process of a job. Any goroutine may call its methods. MPI-5.0 §11.2.
type Process core.Process

func (p *Process) core() *core.Process { return (*core.Process)(p) }

// process returns the results of a call of core.
func process(p *core.Process, err error) (*Process, error) { return (*Process)(p), public(err) }

// World returns the communicator of all processes of the job; nil if the World Model has not been opened, or p is nil.
// MPI-5.0 §7.2.4.
func (p *Process) World() *Comm { return (*Comm)(p.core().World()) }

// Self returns the communicator of this process alone; nil if the World Model has not been opened. MPI-5.0 §7.2.4.
func (p *Process) Self() *Comm { return (*Comm)(p.core().Self()) }
