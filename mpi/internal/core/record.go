package core

import (
	"errors"
	"os"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// startRecording creates the recorder of the process's calls, its trace and its profile, as the environment and the
// launcher ask. The launcher reads them from shared memory.
func (p *Process) startRecording() error {
	mode, err := perf.ModeFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	boot := p.boot
	identity := perf.Identity{Rank: boot.Rank, Size: boot.Size, PID: os.Getpid()}
	if boot.Trace != nil {
		mode = perf.All // the user asked for a trace
		if p.recorders.trace, err = perf.NewTrace(boot.Trace, identity); err != nil {
			return err
		}
	}
	page := boot.Counters
	if len(page) < perf.PageBytes && mode != perf.Off {
		page = make([]byte, perf.PageBytes)
	}
	p.recorders.record, err = perf.NewRecorder(page, identity, mode)
	if p.check {
		p.recorders.record.Places(callPosition)
		p.recorders.record.Called(perf.NoOp)
	}
	if err != nil || boot.Profile == nil {
		return err
	}
	if p.recorders.profile, err = profile.Start(boot.Profile); err != nil && boot.Report != nil {
		boot.Report(err.Error()) // the job can run without a profile
	}
	return nil
}

// recordJoined is called when all processes have joined and share a common time. Records of different processes can
// be ordered from now on.
func (p *Process) recordJoined() {
	p.recorders.record.Joined()
	if p.recorders.trace != nil {
		p.engine.Recording().StartTrace(p.clockSync.clock.Now)
	}
}

// recordCall records a call that consists of other calls, from now until the result is called. The other calls are
// recorded as [perf.Op.Within] this one and are not counted.
func (p *Process) recordCall(call perf.Op) (ended func()) {
	began := p.engine.Recording().BeginOp(call, 0)
	return func() { p.engine.Recording().EndOp(call, 0, began) }
}

// stopProfile stores the part of the profile that has not been stored yet.
func (p *Process) stopProfile() {
	if err := p.recorders.profile.Stop(); err != nil && p.boot.Report != nil {
		p.boot.Report(err.Error())
	}
}

// Pcontrol switches the recording of this process's calls: level 0 switches it off, level 1 switches it on again.
func (p *Process) Pcontrol(level int) {
	if !p.IsNone() && (level == 0 || level == 1) {
		p.engine.SetRecording(level == 1)
	}
}

// Progress reports how far the program is: done of total, in steps that the program chooses.
func (p *Process) Progress(done, total int) error {
	if err := p.checkUsable("Progress"); err != nil {
		return err
	}
	if done < 0 || done > total {
		return p.newError("Progress", ErrArg, errors.New("done must be from 0 to total"))
	}
	p.engine.Recording().Progress(uint64(done), uint64(total))
	return nil
}

// Recorded returns what this process has recorded since Init: calls, messages and times.
func (p *Process) Recorded() (*perf.Snapshot, error) {
	if err := p.checkUsable("Recorded"); err != nil {
		return nil, err
	}
	page := p.recorders.record.Page()
	if page == nil {
		return nil, nil
	}
	s, err := page.Snapshot()
	return s, p.wrapError("Recorded", err)
}
