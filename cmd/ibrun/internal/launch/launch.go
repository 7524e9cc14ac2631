package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/internal/printable"
)

// Streams are the standard streams of ibrun.
type Streams = console.Streams

// Attrs are the attributes of a message on Streams.
type Attrs = console.Attrs

// Run runs a job from start to end and returns the exit code of ibrun: 0, or the code of the rank that failed first, or one of
// [exitcode] if ibrun itself failed. args is the command line that o was parsed from, and env the environment of the ranks.
// Children that this process has from before are not affected.
func Run(o *cli.Options, args, env []string, s console.Streams) int {
	j := newJob(o)
	s = atNode(s, &j.place).Async()
	defer s.Flush()
	began := time.Now()
	code, err := run(j, args, env, s)
	if err == nil {
		return code
	}
	code = exitcode.Of(err)
	s.Error("the job could not be run", console.Attrs{ExitCode: &code, DurationSeconds: time.Since(began).Seconds(),
		Error: err.Error(), Text: err.Error()})
	s.LimitFlush(failedFlush)
	if exitcode.IsSignal(err) {
		s.LimitFlush(interruptedFlush)
	}
	return code
}

// atNode returns streams for the messages of a node whose job is not known yet.
func atNode(s console.Streams, set *placeSettings) console.Streams {
	name, err := nodeName(set.name)
	if err != nil {
		return s // readMachine reports it
	}
	return s.At("", name, set.node)
}

// How long the lines of a job that has not started may take until standard error has accepted them.
const (
	failedFlush      = 10 * time.Second
	interruptedFlush = 500 * time.Millisecond // a user has asked for the end
)

func run(j *job, args, env []string, s console.Streams) (int, error) {
	if err := supported(); err != nil {
		return 0, err
	}
	if j.run.Verbose {
		for _, note := range j.notes {
			s.Info("a flag has no effect", console.Attrs{Text: note})
		}
	}
	warnUnset(j.programs, s)
	for _, m := range cli.Misspelt(env) {
		text := fmt.Sprintf("nothing reads %s; do you mean %s?", m.Name, m.Meant)
		s.Warn("a variable of the environment is not known", console.Attrs{Text: text})
	}
	if err := j.place.policy.ReadFile(); err != nil {
		return 0, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	j, a, err := findHosts(j, env)
	if err != nil {
		return 0, err
	}
	if a != nil {
		for _, note := range a.Notes {
			s.Warn("the hosts are not used as they may be meant", console.Attrs{Text: note})
		}
	}
	if j.dryRun {
		return 0, dryRun(j, env, s)
	}
	w, err := startWatcher() // it gets ready while this process plans
	if err != nil {
		return 0, err
	}
	defer closeWatcher(w, s)
	grace := findGrace(a, j)
	if a == nil || j.place.nodes <= 1 {
		return runHere(w, nil, j.withGrace(grace()), coordinator.Peers{}, env, s)
	}
	host, err := nodeName(j.place.name)
	if err != nil {
		return 0, err
	}
	started, err := startWorkers(w, a, host, j, args, env, s)
	if err != nil {
		return 0, err
	}
	code, err := runHere(w, started.programs, j.withGrace(grace()), started.peers, env, s)
	started.end(code, err)
	return code, err
}

// warnUnset names the variables that the user wants to pass to the ranks, but that are not set. The name may be misspelt, and a
// program that does not find a variable often has a default, so nothing else would show it.
func warnUnset(programs []cli.Program, s console.Streams) {
	var warned []string
	for _, p := range programs {
		for _, name := range p.Unset {
			if !slices.Contains(warned, name) {
				warned = append(warned, name)
				s.Warn("a variable that -x names is not set", console.Attrs{Text: fmt.Sprintf("-x %s: there is no variable of this "+
					"name, so the ranks do not get it; -x NAME=VALUE sets one", name)})
			}
		}
	}
}

// findGrace starts to ask the scheduler of the hosts how long ranks may take to end, unless the
// user has said it. grace waits for the answer, and returns that time, or that of the job if there
// is no answer.
func findGrace(a *allocation.Allocation, j *job) (grace func() time.Duration) {
	own := j.run.Grace
	if a == nil || a.Starter != allocation.Slurm || j.graceGiven {
		return func() time.Duration { return own }
	}
	answer := make(chan time.Duration, 1)
	go func() { answer <- remote.SlurmGrace() }()
	return func() time.Duration { return cmp.Or(<-answer, own) }
}

func closeWatcher(w startedWatcher, s console.Streams) {
	if err := w.Close(); err != nil {
		s.Warn("what ibrun has started could not be ended in order", console.Attrs{Error: err.Error(), Text: err.Error()})
	}
}

// runHere runs this node of a job. programs are those of the command line, if they are being built already.
func runHere(w startedWatcher, programs []program, j *job, p coordinator.Peers, env []string, s console.Streams) (int, error) {
	here, err := readMachine(&j.place, s)
	if err != nil {
		return 0, err
	}
	if err := j.run.Recordings.Check(); err != nil {
		return 0, err
	}
	m, err := coordinator.JoinNodes(j.joinSettings(here.Name), p, s)
	if err != nil {
		return 0, err
	}
	code, err := start(w, m, programs, here, j, env, s.At(m.Job.JobID, here.Name, j.place.node))
	if err != nil {
		m.Abort(err)
		if m.Job.Started != nil && j.place.node > 0 {
			return exitcode.Of(err), nil // the coordinator prints it
		}
	}
	return code, err
}

// dryRun prints where the ranks would run, after the checks that this node makes of a job before it starts programs.
func dryRun(j *job, env []string, s console.Streams) error {
	here, err := readMachine(&j.place, s)
	if err != nil {
		return err
	}
	if err := j.run.Recordings.Check(); err != nil {
		return err
	}
	p, err := makeCheckedPlan(here, nodeNames(here.Name, &j.place), j, s)
	if err != nil {
		return err
	}
	programs, err := findPrograms(j.programs, env)
	if err != nil {
		return err
	}
	if err := checkLibraries(programs, j.programs, len(p.programs)); err != nil {
		return err
	}
	if err := tryDebuggers(p.localRanks(), &j.debug, cli.Lookup(env)); err != nil {
		return err
	}
	out := printable.NewWriter(s.Out)
	return errors.Join(p.print(out, j.programs), out.Flush())
}

// start starts the ranks of this node once all nodes have joined, and waits for the end of the job.
func start(w startedWatcher, m *coordinator.Cluster, programs []program, here placement.Machine, j *job, env []string,
	s console.Streams) (int, error) {
	p, err := makeCheckedPlan(here, m.Job.Names, j, s)
	if err != nil {
		return 0, err
	}
	switch {
	case programs != nil:
	case m.Job.Started != nil:
		copies := &copiedPrograms{watcher: w}
		defer copies.remove()
		programs, err = copies.obtain(m, j)
	default:
		if programs, err = findPrograms(j.programs, env); err == nil {
			err = buildAll(w, programs, j, s)
		}
	}
	if err == nil {
		err = checkLibraries(programs, j.programs, len(p.programs))
	}
	if err != nil {
		return 0, err
	}
	t, err := makeTask(m, p, j, programs, env)
	if err != nil {
		return 0, err
	}
	d, err := newDebuggers(&j.debug, cli.Lookup(env))
	if err != nil {
		return 0, err
	}
	w.removeAtDeath(d.dir)
	hints, err := d.add(t.Ranks, &j.debug)
	if err != nil {
		return 0, errors.Join(err, d.close())
	}
	for _, hint := range hints {
		s.Info("a rank waits for a debugger", console.Attrs{Text: hint})
	}
	code, err := w.runJob(m, p.Layout, t, j.runSettings(t.Host), s)
	return code, errors.Join(err, d.close())
}
