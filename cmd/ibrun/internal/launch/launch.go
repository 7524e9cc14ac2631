package launch

import (
	"errors"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// Streams are the standard streams of ibrun.
type Streams = console.Streams

// Run runs a job from start to end and returns the exit code of ibrun: 0, or the code of the rank that failed first, or one of
// [exitcode] if ibrun itself failed. env is the environment of the ranks. Children that this process
// has from before are not affected.
func Run(o *cli.Options, env []string, s console.Streams) int {
	s = s.Async()
	defer s.Flush()
	code, err := run(o, env, s)
	if err == nil {
		return code
	}
	s.Printf("%v", err)
	code = exitcode.Of(err)
	s.LimitFlush(failedFlush)
	if code > exitcode.SignalBase {
		s.LimitFlush(interruptedFlush)
	}
	return code
}

// How long the lines of a job that has not started may take until standard error has accepted them.
const (
	failedFlush      = 10 * time.Second
	interruptedFlush = 500 * time.Millisecond // a user has asked for the end
)

func run(o *cli.Options, env []string, s console.Streams) (int, error) {
	if err := supported(); err != nil {
		return 0, err
	}
	if o.Verbose {
		for _, note := range o.Notes {
			s.Printf("%s", note)
		}
	}
	if err := o.Policy.ReadFile(); err != nil {
		return 0, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	a, err := findHosts(o, env)
	if err != nil {
		return 0, err
	}
	if a != nil {
		for _, note := range a.Notes {
			s.Printf("%s", note)
		}
	}
	if o.DryRun {
		return 0, dryRun(o, env, s)
	}
	if a != nil && o.Nodes > 1 {
		return 0, exitcode.Errorf(exitcode.UsageError,
			"%s has several hosts: start ibrun on each of them, with --rendezvous and --node K/%d",
			a.Source, o.Nodes)
	}
	w, err := startWatcher() // it gets ready while this process plans
	if err != nil {
		return 0, err
	}
	defer func() {
		if err := w.Close(); err != nil {
			s.Printf("%v", err)
		}
	}()
	here, err := readMachine(o, s)
	if err != nil {
		return 0, err
	}
	if err := monitor.CheckFiles(o); err != nil {
		return 0, err
	}
	m, err := coordinator.JoinNodes(here.Name, o, s)
	if err != nil {
		return 0, err
	}
	code, err := start(w, m, here, o, env, s)
	if err != nil {
		m.Abort(err)
	}
	return code, err
}

// dryRun prints where the ranks would run.
func dryRun(o *cli.Options, env []string, s console.Streams) error {
	here, err := readMachine(o, s)
	if err != nil {
		return err
	}
	p, err := makeCheckedPlan(here, nodeNames(here.Name, o), o, s)
	if err != nil {
		return err
	}
	programs, err := findPrograms(o, env)
	if err != nil {
		return err
	}
	if err := checkLibraries(programs, o, len(p.programs)); err != nil {
		return err
	}
	return p.print(s.Out, o)
}

// start starts the ranks of this node once all nodes have joined, and waits for the end of the job.
func start(w startedWatcher, m *coordinator.Cluster, here placement.Machine, o *cli.Options, env []string,
	s console.Streams) (int, error) {
	p, err := makeCheckedPlan(here, m.Job.Names, o, s)
	if err != nil {
		return 0, err
	}
	programs, err := findPrograms(o, env)
	if err != nil {
		return 0, err
	}
	if err := checkLibraries(programs, o, len(p.programs)); err != nil {
		return 0, err
	}
	if err := buildAll(w, programs, o, s); err != nil {
		return 0, err
	}
	t, err := makeTask(m, p, o, programs, env)
	if err != nil {
		return 0, err
	}
	d, err := newDebuggers(t.Size, o, cli.Lookup(env))
	if err != nil {
		return 0, err
	}
	w.removeAtDeath(d.dir)
	hints, err := d.add(t.Ranks, o)
	if err != nil {
		return 0, errors.Join(err, d.close())
	}
	for _, hint := range hints {
		s.Printf("%s", hint)
	}
	code, err := w.runJob(m, p.Layout, t, o, s)
	return code, errors.Join(err, d.close())
}
