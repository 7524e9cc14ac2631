package benchcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitInterrupted = 128 + 2 // by Ctrl-C
)

// Main runs `ibrun bench args...` with an environment and streams, and returns the exit code. It prints to out, which ends on
// s.Out, and to errs. The function ibrun must run `ibrun words...` in this process and return its exit code.
func Main(args, env []string, s launch.Streams, out, errs io.Writer, ibrun func(words []string) int) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(errs, "ibrun bench: learning the path of this program: %v\n", err)
		return exitFailed
	}
	width, _, err := term.GetSize(int(s.Out.Fd()))
	if err != nil {
		width = 0 // not a terminal
	}
	c := command{args: args, env: env, stdout: out, stderr: errs, files: s, width: width, self: self, ibrun: ibrun,
		open: openDevice}
	return c.run(context.Background())
}

// command is one call of `ibrun bench`.
type command struct {
	args, env      []string
	stdout, stderr io.Writer
	files          launch.Streams // what another ibrun prints to, which escapes its own lines
	width          int            // columns of the terminal on stdout; 0 if it is not a terminal
	self           string         // path of this program
	ibrun          func(words []string) int
	open           func(device, provider string) (name string, err error) // openDevice
	described      func(manual.Page)                                      // receives the page instead of --help; nil: print it
}

// usageError is an error in the arguments of the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs the command and returns the exit code.
func (c *command) run(ctx context.Context) int {
	err := c.dispatch(ctx)
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	}
	fmt.Fprintf(c.stderr, "ibrun bench: %v\n", err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

// exitError is an exit code without a message.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (c *command) dispatch(ctx context.Context) error {
	if len(c.args) == 0 || manual.IsHelp(c.args) {
		return c.printOps()
	}
	name, args := c.args[0], c.args[1:]
	switch name {
	case "versus":
		return c.versus(ctx, args)
	case "verbs":
		return c.verbs(ctx, args)
	case "overhead":
		return c.overhead(ctx, args)
	case "hints":
		return c.hints(ctx, args)
	case goroutinesOp:
		return c.goroutines(ctx, args)
	case pathsOp:
		return c.paths(ctx, args)
	case performanceOp:
		return c.performance(ctx, args)
	case tuneOp:
		return c.tune(ctx, args)
	case simulateOp:
		return c.simulate(ctx, args)
	}
	op, err := lookup(name)
	if err != nil {
		return err
	}
	o, err := c.parseOp(op, args)
	switch {
	case err != nil || o == nil:
		return err
	case c.isRank():
		return c.measure(ctx, op, o)
	case op.Name == opInit.Name:
		return c.measureInit(ctx, o)
	}
	return c.launch(o, args)
}

// isRank reports whether a launcher started this process as one rank of a job.
func (c *command) isRank() bool {
	getenv := cli.Lookup(c.env)
	return getenv("PMI_FD") != "" || getenv("PMI_PORT") != ""
}

// opInit is the time of a whole command. It is measured by the process that starts the command.
var opInit = bench.Op{Name: "init", Unit: bench.Milliseconds,
	About: "a whole command, which launches, initialises and finalizes all ranks"}

// allOps returns the operations of package bench, and init.
func allOps() []bench.Op { return append(bench.Ops(), opInit) }

// lookup returns the operation of this name. The error for an unknown name suggests a similar one.
func lookup(name string) (bench.Op, error) {
	var names []string
	for _, op := range allOps() {
		if op.Name == name {
			return op, nil
		}
		names = append(names, op.Name)
	}
	near := didYouMean(name, append(names, commandNames()...))
	return bench.Op{}, usagef("unknown operation %q%s; `ibrun bench` lists all", name, near)
}

// page returns the description of ibrun bench.
func page() manual.Page {
	p := manual.Page{Name: "bench", Summary: "measure latency and bandwidth, also in comparison with other MPI implementations",
		Forms: []string{"bench OP [flags]"}}
	for _, name := range commandNames() {
		form := map[string]string{tuneOp: "tune [LIST]", simulateOp: "simulate LIST"}
		p.Forms = append(p.Forms, "bench "+cmp.Or(form[name], name)+" [flags]")
	}
	p.About = []string{"The flags are those of most operations; `ibrun bench OP --help` lists those of one."}
	ops := manual.Topic{Title: "Operations"}
	for _, op := range allOps() {
		p.Words = append(p.Words, op.Name)
		ops.Entries = append(ops.Entries, manual.Entry{Term: fmt.Sprintf("%-15s %s", op.Name, op.Unit), Text: op.About})
	}
	p.Words = append(p.Words, commandNames()...)
	p.Topics = []manual.Topic{ops}
	return p
}

// commandNames returns the words after bench that are not operations.
func commandNames() []string {
	return []string{"versus", "verbs", "overhead", "hints", goroutinesOp, pathsOp, performanceOp, simulateOp, tuneOp}
}

// Pages returns the descriptions of ibrun bench and of the commands below it. The first also has the flags of operations.
func Pages() []manual.Page {
	pages := []manual.Page{page()}
	for _, name := range append([]string{"bw"}, commandNames()...) {
		c := &command{stdout: io.Discard, stderr: io.Discard, args: []string{name, "--help"},
			described: func(p manual.Page) { pages = append(pages, p) }}
		c.run(context.Background())
	}
	pages[0].Groups = []manual.Group{{Title: "Flags of operations", Flags: pages[1].Groups[0].Flags}}
	return slices.Delete(pages, 1, 2)
}

// printOps prints the usage and the list of operations.
func (c *command) printOps() error {
	p := Pages()[0]
	_, err := io.WriteString(c.stdout, p.Help())
	return err
}

// launch starts this program again as the ranks of a job, with the same arguments.
func (c *command) launch(o *options, args []string) error {
	words := []string{"-n", strconv.Itoa(o.ranks), "--", c.self, "bench", o.op.Name, "--width", strconv.Itoa(c.width)}
	if code := c.ibrun(append(words, args...)); code != 0 {
		return exitError{code}
	}
	return nil
}

// quoteCommand quotes a command for a shell.
func quoteCommand(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " '\"$&|;<>()*?[]#~`\\\t\n") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}

// untilInterrupted calls f with a context that SIGINT and SIGTERM end. If one of them has come, it returns exitInterrupted.
func untilInterrupted(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f(ctx); ctx.Err() == nil {
		return err
	}
	return exitError{exitInterrupted}
}
