package mpi

import (
	"errors"
	"os"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// startRecording makes what writes down what the process does, for the launcher to read, or for nobody.
func (p *Process) startRecording() error {
	mode, err := perf.ModeFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	at := p.boot
	who := perf.Identity{Rank: at.Rank, Size: at.Size, PID: os.Getpid()}
	if at.Trace != nil {
		mode = perf.All // it is asked for in particular
		if p.trace, err = perf.NewTrace(at.Trace, who); err != nil {
			return err
		}
	}
	page := at.Counters
	if len(page) < perf.PageBytes && mode != perf.Off {
		page = make([]byte, perf.PageBytes)
	}
	if p.record, err = perf.NewRecorder(page, who, mode); err != nil || at.Profile == nil {
		return err
	}
	if p.profile, err = profile.Start(at.Profile); err != nil && at.Report != nil {
		at.Report(err.Error()) // the job does not depend on it
	}
	return nil
}

// recordJoined is called when all processes have joined and have one time: from now on what they do can be put in order.
func (p *Process) recordJoined() {
	p.record.Joined()
	if p.trace != nil {
		p.engine.StartTrace(p.clockSync.clock.Now)
	}
}

// recordCall has a call recorded that is made of others, which are not: from now until the result is called. Those are shown as
// [perf.Op.Within] it.
func (p *Process) recordCall(call perf.Op) (ended func()) {
	began := p.engine.BeginOp(call, 0)
	return func() { p.engine.EndOp(call, 0, began) }
}

// stopProfile keeps what has been taken of a profile that was not kept yet.
func (p *Process) stopProfile() {
	if err := p.profile.Stop(); err != nil && p.boot.Report != nil {
		p.boot.Report(err.Error())
	}
}

// Pcontrol switches the recording of what this process does: level 0 switches it off, and 1 on again, as it is after Init, so
// that reports and metrics leave out what a program does to warm up, say. Other levels do nothing. Calls under way are
// recorded or not as it was when they began. MPI-5.0 §15.2.4.
func (p *Process) Pcontrol(level int) {
	if level == 0 || level == 1 {
		p.engine.SetRecording(level == 1)
	}
}

// Progress tells whoever watches the job how far the program is: done of total, in steps of its own. It costs some
// nanoseconds. Not in MPI-5.0.
func (p *Process) Progress(done, total int) error {
	if done < 0 || done > total {
		return p.raise(&Error{ErrArg, "Progress", p.boot.Rank, errors.New("progress goes from 0 to the total")})
	}
	p.engine.RecordProgress(uint64(done), uint64(total))
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
	return s, p.wrapError("Recorded", err)
}
