package mpi

import "github.com/ibrun/ibrun/perf"

// Pcontrol switches the recording of this process's calls: level 0 switches it off, level 1 switches it on again. It
// is on after Init. A program can thus keep its warm-up out of reports and metrics. Other levels do nothing. A call
// in progress is recorded if recording is on when it ends. MPI-5.0 §15.2.4.
func (p *Process) Pcontrol(level int) {
	p.core().Recording().Pcontrol(level)
}

// Progress reports how far the program is: done of total, in steps that the program chooses. Monitors of the job show
// it. A call takes some nanoseconds. Not in MPI-5.0.
func (p *Process) Progress(done, total int) error {
	return result(p.core(), "Progress", p.core().Recording().Progress(done, total))
}

// Recorded returns what this process has recorded since Init: calls, messages and times. It is nil with
// IBRUN_PERF=off. It may be called at any time, also after Finalize. Not in MPI-5.0, whose tool information interface
// gives such values by name (§15.3).
func (p *Process) Recorded() (*perf.Snapshot, error) {
	x, err := p.core().Recording().Recorded()
	return x, result(p.core(), "Recorded", err)
}
