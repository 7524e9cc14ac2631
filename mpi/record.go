package mpi

import (
	"errors"
	"os"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// observe makes what writes down what the process does, for the launcher to read, or for nobody.
func (p *Process) observe() error {
	mode, err := perf.ModeFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	at := p.place
	who := perf.Identity{Rank: at.Rank, Size: at.Size, PID: os.Getpid()}
	if at.Trace != nil {
		mode = perf.All // it is asked for in particular
		if p.trace, err = perf.NewTrace(at.Trace, who); err != nil {
			return err
		}
	}
	page := at.Page
	if len(page) < perf.PageBytes && mode != perf.Off {
		page = make([]byte, perf.PageBytes)
	}
	if p.record, err = perf.NewRecorder(page, who, mode); err != nil || at.Profile == nil {
		return err
	}
	if p.prof, err = profile.Start(at.Profile); err != nil && at.Report != nil {
		at.Report(err.Error()) // the job does not depend on it
	}
	return nil
}

// watched is called when all processes have joined and have one time: from now on what they do can be put in order.
func (p *Process) watched() {
	p.record.Joined()
	if p.trace != nil {
		p.e.StartTrace(p.keep.clock.Now)
	}
}

// called has a call recorded that is made of others, which are not: from now until the result is called. Those are shown as
// [perf.Op.Within] it.
func (p *Process) called(as perf.Op) (ended func()) {
	began := p.e.BeginOp(as, 0)
	return func() { p.e.EndOp(as, 0, began) }
}

// endProfile keeps what has been taken of a profile that was not kept yet.
func (p *Process) endProfile() {
	if err := p.prof.Stop(); err != nil && p.place.Report != nil {
		p.place.Report(err.Error())
	}
}

// Pcontrol switches the recording of what this process does: level 0 switches it off, and 1 on again, as it is after Init, so
// that reports and metrics leave out what a program does to warm up, say. Other levels do nothing. Calls under way are
// recorded or not as it was when they began. MPI-5.0 §15.2.4.
func (p *Process) Pcontrol(level int) {
	if level == 0 || level == 1 {
		p.e.SetRecording(level == 1)
	}
}

// Progress tells whoever watches the job how far the program is: done of total, in steps of its own. It costs some
// nanoseconds. Not in MPI-5.0.
func (p *Process) Progress(done, total int) error {
	if done < 0 || done > total {
		return p.raise(&Error{ErrArg, "Progress", p.place.Rank, errors.New("progress goes from 0 to the total")})
	}
	p.e.RecordProgress(uint64(done), uint64(total))
	return nil
}

// Recorded tells what this process has done since Init: calls, messages, times. It is nil with IBRUN_PERF=off. It may be asked
// for at any time, also after Finalize. Not in MPI-5.0, whose tool information interface gives such figures by name (§15.3).
func (p *Process) Recorded() (*perf.Snapshot, error) {
	page := p.record.Page()
	if page == nil {
		return nil, nil
	}
	s, err := page.Snapshot()
	return s, p.below("Recorded", err)
}
