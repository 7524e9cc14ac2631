package launch

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
)

// Streams are the standard streams of ibrun.
type Streams = console.Streams

// Run runs a job from start to end and returns the exit code of ibrun: 0, that of the rank that failed first, or
// one that says why there was no such rank. env is the environment of the ranks. It may be called once in a
// process, which must have no other children at that time.
func Run(o *cli.Options, env []string, s console.Streams) int {
	code, err := run(o, env, s)
	if err == nil {
		return code
	}
	s.Say("%v", err)
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

// makeCheckedPlan makes a plan that this machine has the means for, and tells the user what there is to know.
func makeCheckedPlan(here placement.Machine, names []string, o *cli.Options, s console.Streams) (*plan, error) {
	p, err := makePlan(here, names, o)
	if err != nil {
		return nil, err
	}
	if err := checkLimits(len(p.localRanks())); err != nil {
		return nil, err
	}
	p.printNotes(o, s)
	return p, nil
}

// start has the ranks started, once all nodes are there, and watches them to the end.
func start(m *coordinator.Cluster, here placement.Machine, o *cli.Options, env []string, s console.Streams) (int, error) {
	p, err := makeCheckedPlan(here, m.Welcome.Names, o, s)
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
		s.Say("%s", hint)
	}
	return runJob(m, p.Layout, t, o, s)
}

// print writes the table of --dry-run. The words of its head stand one space apart, so that scripts find it.
func (p *plan) print(w io.Writer, o *cli.Options) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	mine := p.placement.Ranks
	for rank, node := range p.NodeOf {
		cores := "-" // which it decides itself
		if node == p.node {
			cores, mine = hw.FormatList(mine[0].PUs), mine[1:]
		}
		fmt.Fprintf(table, "%4d\t%s\t%s\t%s\n", rank, p.names[node], cores, strings.Join(o.Programs[p.programs[rank]].Args, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "rank node cores program\n%s", b.String())
	return err
}
