package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/ibrun/ibrun/internal/printable"
)

const usage = `usage: ibrun ps [--json]                                          list your jobs on this machine
       ibrun top [--once] [--json] [--interval TIME] [JOB]      show how busy the ranks of a job are, repeatedly
       ibrun hang [--json] [JOB]                                show what the ranks wait for, and where stuck ranks are
JOB is a job id from ibrun ps, the beginning of one, or the process id of its ibrun. With one job it can be omitted.
`

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errJobEnded is returned when a job ended between two requests.
var errJobEnded = errors.New("the job has ended")

// options are the options of ps, top and hang.
type options struct {
	json, once bool
	interval   time.Duration
	job        string
}

// Main runs the command name, which is ps, top or hang, with these arguments. It returns the exit code.
func Main(name string, args []string, stdout *os.File, stderr io.Writer) int {
	o, err := parseOptions(name, args)
	if errors.Is(err, flag.ErrHelp) || len(args) == 1 && args[0] == "help" {
		_, err = fmt.Fprint(stdout, usage)
	} else if err != nil {
		fmt.Fprintf(stderr, "ibrun %s: %v\n%s", name, err, usage)
		return exitUsage
	} else {
		err = o.run(context.Background(), name, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun %s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

func parseOptions(name string, args []string) (o options, err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", false, "")
	if name == "top" {
		flags.BoolVar(&o.once, "once", false, "")
		flags.DurationVar(&o.interval, "interval", time.Second, "")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.job = flags.Arg(0)
	switch {
	case flags.NArg() > 1 || name == "ps" && o.job != "":
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(flags.NArg()-1))
	case name == "top" && o.interval < 100*time.Millisecond:
		return o, errors.New("--interval: want a duration of at least 100ms, such as 500ms or 2s")
	}
	return o, nil
}

func (o options) run(ctx context.Context, name string, stdout *os.File, stderr io.Writer) error {
	jobs, err := Jobs(ctx)
	if name == "ps" {
		return errors.Join(o.printJobs(jobs, stdout), err)
	}
	job, errPick := selectJob(jobs, o.job)
	if errPick != nil {
		return errors.Join(err, errPick)
	}
	if err != nil { // about other jobs than the selected one
		fmt.Fprintf(stderr, "ibrun %s: %v\n", name, err)
	}
	if name == "top" {
		return o.top(ctx, job.Remote(), stdout)
	}
	v, err := NewView(ctx, job.Remote())
	switch {
	case err != nil:
		return err
	case o.json:
		return json.NewEncoder(stdout).Encode(v)
	}
	return v.Text(stdout)
}

// selectJob returns the job with this id, prefix of an id, or process id. If several ibruns of one job run on this machine, it
// returns the first, since each of them knows the ranks of all nodes.
func selectJob(jobs []Job, want string) (Job, error) {
	var found []Job
	var names []string
	for _, j := range jobs {
		another := slices.ContainsFunc(found, func(f Job) bool { return f.ID == j.ID })
		if !another && strings.HasPrefix(j.ID, want) || want == strconv.Itoa(j.PID) {
			found = append(found, j)
			names = append(names, fmt.Sprintf("%s (process %d)", j.ID, j.PID))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Job{}, fmt.Errorf("several jobs match: %s", strings.Join(names, ", "))
	case want != "":
		return Job{}, fmt.Errorf("you have no job %s on this machine; ibrun ps lists your jobs", want)
	}
	return Job{}, errors.New("you have no jobs on this machine")
}

// printJobs prints the table of ibrun ps.
func (o options) printJobs(jobs []Job, w io.Writer) error {
	if o.json {
		if jobs == nil {
			jobs = []Job{}
		}
		return json.NewEncoder(w).Encode(jobs)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "JOB\tPID\tNODE\tRANKS\tELAPSED\tCOMMAND")
	for _, j := range jobs {
		fmt.Fprintf(tab, "%s\t%d\t%d/%d\t%d\t%s\t%s\n", j.ID, j.PID, j.Node, j.Nodes, j.Size, formatDuration(time.Since(j.Began)),
			printable.Line(strings.Join(j.Command, " ")))
	}
	return tab.Flush()
}

// top prints a table for each interval until the job ends, or once.
func (o options) top(ctx context.Context, s Source, stdout *os.File) error {
	last, err := s.Ranks(ctx)
	if err != nil {
		return err
	}
	when := time.Now()
	for first := true; ; first = false {
		time.Sleep(o.interval)
		now, err := s.Ranks(ctx)
		if errors.Is(err, errJobEnded) && !first {
			return nil
		}
		if err != nil {
			return err
		}
		t := newTable(s.Job(), last, now, time.Since(when))
		last, when = now, time.Now()
		if err := o.printTable(t, stdout, first); err != nil || o.once {
			return err
		}
	}
}

// printTable prints a table. On a terminal it replaces the previous one.
func (o options) printTable(t *Table, stdout *os.File, first bool) error {
	if o.json {
		return json.NewEncoder(stdout).Encode(t)
	}
	columns, lines, err := term.GetSize(int(stdout.Fd()))
	if err != nil || o.once { // not a terminal
		return t.Text(stdout, 0, 0)
	}
	const home, erase, below = "\x1b[H", "\x1b[2J", "\x1b[J"
	var b strings.Builder
	if first {
		b.WriteString(erase)
	}
	b.WriteString(home)
	if err := t.Text(&b, lines, columns); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")+below)
	return err
}
