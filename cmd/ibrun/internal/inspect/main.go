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
)

const usage = `usage: ibrun ps [--json]                                          list your jobs on this machine
       ibrun top [--once] [--json] [--interval TIME] [JOB]      how busy the ranks of a job are, again and again
       ibrun hang [--json] [JOB]                                what they wait for, and the goroutines of the odd ones
JOB is as in ibrun ps, its beginning, or the process of its ibrun; it may be left out while there is one job only.
`

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errGone says that a job ended while it was looked at.
var errGone = errors.New("there is nothing more to see")

// options are the command line of any of the commands.
type options struct {
	json, once bool
	interval   time.Duration
	job        string
}

// Main is `ibrun ps args...`, and so on, by the name of the command: ps, top or hang. It returns the exit code.
func Main(name string, args []string, stdout *os.File, stderr io.Writer) int {
	o, err := read(name, args)
	if errors.Is(err, flag.ErrHelp) || len(args) == 1 && args[0] == "help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun %s: %v\n%s", name, err, usage)
		return exitUsage
	}
	if err := o.run(context.Background(), name, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "ibrun %s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

func read(name string, args []string) (o options, err error) {
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
		return o, fmt.Errorf("%q is one too many", flags.Arg(flags.NArg()-1))
	case name == "top" && o.interval < 100*time.Millisecond:
		return o, errors.New("--interval is written 2s or 500ms, and is 100ms at least")
	}
	return o, nil
}

func (o options) run(ctx context.Context, name string, stdout *os.File, stderr io.Writer) error {
	jobs, err := Jobs(ctx)
	if name == "ps" {
		return errors.Join(o.list(jobs, stdout), err)
	}
	job, errPick := pick(jobs, o.job)
	if errPick != nil {
		return errors.Join(err, errPick)
	}
	if err != nil { // of others than the one that is wanted
		fmt.Fprintf(stderr, "ibrun %s: %v\n", name, err)
	}
	if name == "top" {
		return o.top(ctx, job.Remote(), stdout)
	}
	v, err := Look(ctx, job.Remote())
	switch {
	case err != nil:
		return err
	case o.json:
		return json.NewEncoder(stdout).Encode(v)
	}
	return v.Text(stdout)
}

// pick finds the job that is meant. Of several nodes of a job here any will do, as each tells of all, and the first is taken.
func pick(jobs []Job, want string) (Job, error) {
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
		return Job{}, fmt.Errorf("which job? There are %s", strings.Join(names, ", "))
	case want != "":
		return Job{}, fmt.Errorf("there is no job %s of yours here; ibrun ps lists them", want)
	}
	return Job{}, errors.New("there is no job of yours here")
}

// list is ibrun ps.
func (o options) list(jobs []Job, w io.Writer) error {
	if o.json {
		if jobs == nil {
			jobs = []Job{}
		}
		return json.NewEncoder(w).Encode(jobs)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "JOB\tPID\tNODE\tRANKS\tFOR\tCOMMAND")
	for _, j := range jobs {
		fmt.Fprintf(tab, "%s\t%d\t%d/%d\t%d\t%s\t%s\n", j.ID, j.PID, j.Node, j.Nodes, j.Size, long(time.Since(j.Began)),
			strings.Join(j.Command, " "))
	}
	return tab.Flush()
}

// top shows tables until the job ends, or once.
func (o options) top(ctx context.Context, s Source, stdout *os.File) error {
	last, err := s.Ranks(ctx)
	if err != nil {
		return err
	}
	when := time.Now()
	for first := true; ; first = false {
		time.Sleep(o.interval)
		now, err := s.Ranks(ctx)
		if errors.Is(err, errGone) && !first {
			return nil
		}
		if err != nil {
			return err
		}
		t := newTable(s.Job(), last, now, time.Since(when))
		last, when = now, time.Now()
		if err := o.show(t, stdout, first); err != nil || o.once {
			return err
		}
	}
}

// show writes a table: in place on a terminal, below the last one elsewhere.
func (o options) show(t *Table, stdout *os.File, first bool) error {
	if o.json {
		return json.NewEncoder(stdout).Encode(t)
	}
	columns, lines, err := term.GetSize(int(stdout.Fd()))
	if err != nil || o.once { // no terminal
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
