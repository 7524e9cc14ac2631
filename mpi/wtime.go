package mpi

import "time"

// Wtime is the time in seconds since some moment in the past, the same for all processes of the job. It never goes back.
//
// Processes of one kernel, in one time namespace, read one clock. If others take part, the clock is that of rank 0, and
// the others correct theirs by messages, in Init and ever after; WtimeError tells how well. What messages cannot tell is
// by how much their path takes longer one way than the other: half of that is an error that remains, below half of the
// fastest round trip. It is local, also afterwards and after Finalize. MPI-5.0 §9.6.
func (p *Process) Wtime() float64 { return float64(p.clockSync.clock.Now()) / 1e9 }

// Wtick is the resolution of Wtime in seconds. MPI-5.0 §9.6.
func (p *Process) Wtick() float64 { return 1e-9 }

// WtimeError is by how much this process's Wtime was off rank 0's when they last were compared, in 999 of 1000 cases of
// late, as far as messages can tell: drift and errors of reading. It is 0 if both read one clock. Not in MPI-5.0.
func (p *Process) WtimeError() time.Duration { return time.Duration(p.clockSync.clock.Residual()) }
