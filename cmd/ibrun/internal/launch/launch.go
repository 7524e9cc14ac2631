package launch

import (
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
// [exitcode] if ibrun itself failed. env is the environment of the ranks. Run may be called once in a process, which must have
// no other children at that time.
func Run(o *cli.Options, env []string, s console.Streams) int {
	code, err := run(o, env, s)
	if err == nil {
		return code
	}
	s.Printf("%v", err)
	return exitcode.Of(err)
}

func run(o *cli.Options, env []string, s console.Streams) (int, error) {
	if err := supported(); err != nil {
		return 0, err
	}
	if err := o.Policy.ReadFile(); err != nil {
		return 0, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	here, err := readMachine(o, s)
	if err != nil {
		return 0, err
	}
	if o.DryRun {
		p, err := makeCheckedPlan(here, nodeNames(here.Name, o), o, s)
		if err != nil {
			return 0, err
		}
		if _, err := findPrograms(o, env); err != nil {
			return 0, err
		}
		return 0, p.print(s.Out, o)
	}
	if err := monitor.CheckFiles(o); err != nil {
		return 0, err
	}
	m, err := coordinator.JoinNodes(here.Name, o, s)
	if err != nil {
		return 0, err
	}
	code, err := start(m, here, o, env, s)
	if err != nil {
		m.Abort(err)
	}
	return code, err
}

// start starts the ranks of this node once all nodes have joined, and waits for the end of the job.
func start(m *coordinator.Cluster, here placement.Machine, o *cli.Options, env []string, s console.Streams) (int, error) {
	p, err := makeCheckedPlan(here, m.Job.Names, o, s)
	if err != nil {
		return 0, err
	}
	programs, err := findPrograms(o, env)
	if err != nil {
		return 0, err
	}
	if err := buildAll(programs, o, s); err != nil {
		return 0, err
	}
	t, err := makeTask(m, p, o, programs, env)
	if err != nil {
		return 0, err
	}
	hints, err := addDebuggers(t.Ranks, t.Size, o, cli.Lookup(env))
	if err != nil {
		return 0, err
	}
	for _, hint := range hints {
		s.Printf("%s", hint)
	}
	return runJob(m, p.Layout, t, o, s)
}
