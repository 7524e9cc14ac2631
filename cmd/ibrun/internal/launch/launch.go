package launch

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Streams are ibrun's standard streams. In is inherited by rank 0, Out and Err by the agent that passes on what
// ranks write.
type Streams struct {
	In, Out, Err *os.File
}

// EndSignals are the signals by which a user asks a job to end; a second one makes it end.
func EndSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} }

// Say writes one of ibrun's own lines.
func (s Streams) Say(format string, args ...any) {
	erase := ""
	if term.IsTerminal(int(s.Err.Fd())) {
		erase = EraseLine
	}
	_ = WriteAll(s.Err, fmt.Appendf(nil, erase+"ibrun: "+format+"\n", args...)) // there is nowhere else to say it
}

// Run runs a job from start to end and returns the exit code of ibrun: 0, that of the rank that failed first, or
// one that says why there was no such rank. env is the environment of the ranks. It may be called once in a
// process, which must have no other children at that time.
func Run(o *cli.Options, env []string, s Streams) int {
	code, err := run(o, env, s)
	if err == nil {
		return code
	}
	s.Say("%v", err)
	return Of(err)
}

func run(o *cli.Options, env []string, s Streams) (int, error) {
	if err := supported(); err != nil {
		return 0, err
	}
	if err := o.Policy.ReadFile(); err != nil {
		return 0, Errorf(UsageError, "%w", err)
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
	if err := CheckFiles(o); err != nil {
		return 0, err
	}
	m, err := JoinNodes(here.Name, o, s)
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
func makeCheckedPlan(here placement.Machine, names []string, o *cli.Options, s Streams) (*plan, error) {
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
func start(m *Cluster, here placement.Machine, o *cli.Options, env []string, s Streams) (int, error) {
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
	hints, err := addDebuggers(t.Ranks, t.Size, o, Lookup(env))
	if err != nil {
		return 0, err
	}
	for _, hint := range hints {
		s.Say("%s", hint)
	}
	return runJob(m, p.Layout, t, o, s)
}

// findPrograms finds what is to be started.
func findPrograms(o *cli.Options, env []string) (programs []program, err error) {
	for _, want := range o.Programs {
		found, err := findProgram(want.Args[0], Lookup(env)("PATH"))
		if err != nil {
			return nil, err
		}
		if err := checkDir(want.Dir); err != nil {
			return nil, err
		}
		programs = append(programs, found)
	}
	return programs, nil
}

// checkDir refuses a directory that a program cannot run in. Empty means ibrun's own.
func checkDir(dir string) error {
	info, err := os.Stat(cmp.Or(dir, "."))
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Access(cmp.Or(dir, "."), unix.X_OK)
	}
	if err != nil && dir != "" {
		return Errorf(UsageError, "--wdir %s: %w", dir, err)
	}
	return nil
}

// Lookup is os.Getenv for an environment: of a variable that stands there twice the later one counts.
func Lookup(env []string) func(string) string {
	values := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
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

// buildAll builds each program that is Go source, and puts the result in its place. What interrupts ibrun
// interrupts the build.
func buildAll(programs []program, o *cli.Options, s Streams) error {
	ctx, stop := Interruptible("the build")
	defer stop()
	debug := len(o.Delve)+len(o.GDB) > 0
	for i, p := range programs {
		if !p.isGo {
			continue
		}
		path, err := build(ctx, p.path, debug, s.Err)
		if err != nil {
			return err
		}
		if o.Verbose {
			s.Say("built %s as %s", p.path, path)
		}
		programs[i].path = path
	}
	return nil
}

// Notify has these signals sent to a channel, except those that nohup or a shell's & has set to be ignored.
func Notify(to chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

// makeTask writes down what the agent is to start.
func makeTask(m *Cluster, p *plan, o *cli.Options, programs []program, env []string) (*Task, error) {
	t := &Task{JobID: m.Welcome.JobID, Secret: m.Secret, Host: p.names[p.node], Node: p.node, Nodes: len(p.names),
		Mapping: p.Mapping(), Size: len(p.programs), Psets: p.psets, Env: env, Label: o.Label}
	t.Trace, t.Profile = o.Trace != "", o.Profile != ""
	if t.Output = o.Output; o.Output != "" && !filepath.IsAbs(o.Output) {
		here, err := absolute(".")
		if err != nil {
			return nil, err
		}
		t.Output = filepath.Join(strings.ReplaceAll(here, "%", "%%"), o.Output)
	}
	t.Env = slices.Clip(t.Env)
	if Lookup(env)("MASTER_PORT") == "" { // where torch's ranks meet
		t.Env = append(t.Env, "MASTER_ADDR="+m.MasterAddr, fmt.Sprintf("MASTER_PORT=%d", m.Welcome.MasterPort))
	}
	if o.Verbose { // ranks say which transports they take
		t.Env = append(t.Env, "IBRUN_VERBOSE=1")
	}
	if o.Transport != "" {
		t.Env = append(t.Env, tunables.Transports+"="+o.Transport)
	}
	if o.Interfaces != "" {
		t.Env = append(t.Env, tunables.TCPInterfaces+"="+o.Interfaces)
	}
	for _, want := range o.Programs {
		t.Programs = append(t.Programs, ProgramTask{Dir: want.Dir, Env: want.Env})
	}
	for _, program := range p.programs {
		t.Programs[program].Ranks++
	}
	for i := range p.localRanks() {
		r := p.rankTask(i, o)
		r.Path, r.Args = programs[r.Program].path, o.Programs[r.Program].Args
		if programs[r.Program].isGo {
			r.Args = append([]string{r.Path}, r.Args[1:]...)
		}
		t.Ranks = append(t.Ranks, r)
	}
	return t, nil
}
