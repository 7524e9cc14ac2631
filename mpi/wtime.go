package mpi

import (
	"time"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Wtime returns the time in seconds since some moment in the past, which is the same for all processes of the job. It
// never decreases.
//
// Processes of one kernel, in one time namespace, read the same clock. If the job has others, they follow the clock
// of rank 0: they correct theirs by messages, in Init and periodically afterwards. WtimeError estimates the remaining
// error. Messages cannot measure how much longer their path takes in one direction than in the other. Half of this
// difference remains as an error; it is less than half of the fastest round trip. Wtime is local, and may be called
// after Finalize. MPI-5.0 §9.6.
func (p *Process) Wtime() float64 { return p.core().Wtime() }

// Wtick returns the resolution of Wtime in seconds. MPI-5.0 §9.6.
func (p *Process) Wtick() float64 { return core.Wtick }

// WtimeError bounds how far this process's Wtime differs from rank 0's now: what recent comparisons found, and what they leave
// open if that is more. It grows while the processes cannot compare. It contains drift and errors of measurement, but not the
// asymmetry of the path; see Wtime. It is 0 if both read the same clock. Not in MPI-5.0.
func (p *Process) WtimeError() time.Duration { return p.core().WtimeError() }
