package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Page returns the description of the command name, which is ps, top or hang.
func Page(name string) manual.Page {
	const job = "JOB is a job id from ibrun ps, the beginning of one, or the process id of its ibrun. With one job it can be " +
		"omitted."
	page := map[string]manual.Page{
		"ps": {Name: "ps", Summary: "list your jobs on this machine", Forms: []string{"ps [--json]"}},
		"top": {Name: "top", Summary: "show how busy the ranks of a job are, repeatedly",
			Forms: []string{"top [--once] [--json] [--interval TIME] [JOB]"}, About: []string{job, "The key q ends it."}},
		"hang": {Name: "hang", Summary: "show what the ranks of a job wait for, and where stuck ranks are",
			Forms: []string{"hang [--json] [JOB]"}, About: []string{job}},
	}[name]
	page.Groups = []manual.Group{{Title: "Flags", Flags: manual.Flags(new(options).flags(name))}}
	return page
}

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// options are the options of ps, top and hang.
type options struct {
	json, once bool
	interval   time.Duration
	job        string
}

// Main runs the command name, which is ps, top or hang, with these arguments. It prints to out and errs; out ends on the file
// stdout. It returns the exit code.
func Main(name string, args []string, stdin, stdout *os.File, out, errs io.Writer) int {
	o, err := parseOptions(name, args)
	page := Page(name)
	if errors.Is(err, flag.ErrHelp) || manual.IsHelp(args) {
		_, err = fmt.Fprint(out, page.Help())
	} else if err != nil {
		fmt.Fprintf(errs, "ibrun %s: %v\n%s", name, err, page.Usage())
		return exitUsage
	} else {
		err = o.run(context.Background(), name, screen{stdin, stdout, out}, errs)
	}
	if err != nil {
		fmt.Fprintf(errs, "ibrun %s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

// screen is where a command prints: out, which ends on the file stdout. If both files are a terminal, top draws on it.
type screen struct {
	stdin, stdout *os.File
	out           io.Writer
}

// flags returns the flags of the command name.
func (o *options) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	what := map[string]string{"ps": "print one JSON array", "top": "print one JSON object for each interval",
		"hang": "print one JSON object"}
	flags.BoolVar(&o.json, "json", false, what[name])
	if name == "top" {
		flags.BoolVar(&o.once, "once", false, "print one table, and end")
		flags.DurationVar(&o.interval, "interval", time.Second, "measure for this `TIME`, such as 500ms or 2s")
	}
	return flags
}

func parseOptions(name string, args []string) (o options, err error) {
	flags := o.flags(name)
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

func (o options) run(ctx context.Context, name string, on screen, errs io.Writer) error {
	all, err := jobs.List(ctx)
	if name == "ps" {
		return errors.Join(o.printJobs(all, on.out), err)
	}
	job, errPick := jobs.Select(all, o.job)
	if errPick != nil {
		return errors.Join(err, errPick)
	}
	if err != nil { // about other jobs than the selected one
		fmt.Fprintf(errs, "ibrun %s: %v\n", name, err)
	}
	if name == "top" {
		return o.top(ctx, remoteSource{job}, on)
	}
	v, err := NewView(ctx, remoteSource{job})
	switch {
	case err != nil:
		return err
	case o.json:
		return json.NewEncoder(printable.NewJSONWriter(on.out)).Encode(v)
	}
	return v.Text(on.out)
}

// printJobs prints the table of ibrun ps.
func (o options) printJobs(all []jobs.Job, w io.Writer) error {
	if o.json {
		if all == nil {
			all = []jobs.Job{}
		}
		return json.NewEncoder(printable.NewJSONWriter(w)).Encode(all)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "JOB\tPID\tNODE\tRANKS\tELAPSED\tCOMMAND")
	for _, j := range all {
		fmt.Fprintf(tab, "%s\t%d\t%d/%d\t%d\t%s\t%s\n", j.ID, j.PID, j.Node, j.Nodes, j.Size, formatDuration(time.Since(j.Began)),
			printable.Line(strings.Join(j.Command, " ")))
	}
	return tab.Flush()
}

// top prints a table for each interval until the job ends or a user types q, or once.
func (o options) top(ctx context.Context, s Source, on screen) error {
	if term.IsTerminal(int(on.stdout.Fd())) && !o.json && !o.once {
		var quit context.CancelFunc
		ctx, quit = context.WithCancel(ctx)
		defer quit()
		restore, err := watchKeys(on.stdin, quit)
		if err != nil {
			return err
		}
		defer restore()
	}
	if err := o.tables(ctx, s, on); ctx.Err() == nil {
		return err
	}
	return nil
}

// tables prints the tables until ctx ends.
func (o options) tables(ctx context.Context, s Source, on screen) error {
	last, err := s.Ranks(ctx)
	if err != nil {
		return err
	}
	when := time.Now()
	for first := true; ; first = false {
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := s.Ranks(ctx)
		if errors.Is(err, jobs.ErrNotFound) && !first {
			return nil
		}
		if err != nil {
			return err
		}
		t := newTable(s.Job(), last, now, time.Since(when))
		last, when = now, time.Now()
		if err := o.printTable(t, on, first); err != nil || o.once {
			return err
		}
	}
}

// printTable prints a table. On a terminal it replaces the previous one.
func (o options) printTable(t *Table, on screen, first bool) error {
	if o.json {
		return json.NewEncoder(printable.NewJSONWriter(on.out)).Encode(t)
	}
	columns, lines, err := term.GetSize(int(on.stdout.Fd()))
	if err != nil || o.once { // not a terminal
		return t.Text(on.out, 0, 0)
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
	_, err = on.stdout.WriteString(strings.ReplaceAll(b.String(), "\n", "\x1b[K\n") + below)
	return err
}
