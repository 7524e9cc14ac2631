package core

import (
	"errors"
	"os"

	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Recording is what a process records of its calls. The methods of nil do nothing: there is no
// process.
type Recording struct {
	boot    *bootstrap.Process
	engine  *proto.Engine // nil until it has been created; it records calls
	record  *perf.Recorder
	trace   *perf.Trace // nil unless the user has asked for one
	profile *profile.Collector
}

// Recording returns what the process records; nil if there is no process.
func (p *Process) Recording() *Recording {
	if p.IsNone() {
		return nil
	}
	return &p.recording
}

// start creates the recorder of the process's calls, its trace and its profile, as the environment
// and the launcher ask. The launcher reads them from shared memory. check says that calls are
// checked.
func (r *Recording) start(boot *bootstrap.Process, check bool) error {
	mode, err := perf.ModeFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	r.boot = boot
	identity := perf.Identity{Rank: boot.Rank, Size: boot.Size, PID: os.Getpid()}
	// A trace has each call, so the recorder must not leave out any.
	if boot.Trace != nil {
		mode = perf.All // the user asked for a trace
		if r.trace, err = perf.NewTrace(boot.Trace, identity); err != nil {
			return err
		}
	}
	page := boot.Counters
	// Without memory of a launcher, only this process reads what it has recorded.
	if len(page) < perf.PageBytes && mode != perf.Off {
		page = make([]byte, perf.PageBytes)
	}
	r.record, err = perf.NewRecorder(page, identity, mode)
	if check {
		r.record.Places(callPosition)
		r.record.Called(perf.NoOp)
	}
	if err != nil || boot.Profile == nil {
		return err
	}
	if r.profile, err = profile.Start(boot.Profile); err != nil && boot.Report != nil {
		boot.Report(err.Error()) // the job can run without a profile
	}
	return nil
}

// joined is called when all processes have joined and share a common time, which now returns.
// Records of different processes can be ordered from now on.
func (r *Recording) joined(now func() int64) {
	r.record.Joined()
	if r.trace != nil {
		r.engine.Recording().StartTrace(now)
	}
}

// call records a call that consists of other calls, from now until the result is called. The other
// calls are recorded as [perf.Op.Within] this one and are not counted.
func (r *Recording) call(op perf.Op) (ended func()) {
	began := r.engine.Recording().BeginOp(op, 0)
	return func() { r.engine.Recording().EndOp(op, 0, began) }
}

// stopProfile stores the part of the profile that has not been stored yet.
func (r *Recording) stopProfile() {
	if err := r.profile.Stop(); err != nil && r.boot.Report != nil {
		r.boot.Report(err.Error())
	}
}

// Pcontrol switches the recording of this process's calls: level 0 switches it off, level 1
// switches it on again.
func (r *Recording) Pcontrol(level int) {
	if r != nil && (level == 0 || level == 1) {
		r.engine.SetRecording(level == 1)
	}
}

// Progress reports how far the program is: done of total, in steps that the program chooses.
func (r *Recording) Progress(done, total int) error {
	if done < 0 || done > total {
		return WithClass(ErrArg, errors.New("done must be from 0 to total"))
	}
	if r != nil {
		r.engine.Recording().Progress(uint64(done), uint64(total))
	}
	return nil
}

// Recorded returns what this process has recorded since Init: calls, messages and times.
func (r *Recording) Recorded() (*perf.Snapshot, error) {
	if r == nil || r.record.Page() == nil {
		return nil, nil
	}
	return r.record.Page().Snapshot()
}
