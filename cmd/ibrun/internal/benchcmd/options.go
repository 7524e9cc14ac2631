package benchcmd

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// options are the flags of `ibrun bench OP`.
type options struct {
	op         bench.Op
	ranks      int
	cfg        bench.Config
	json, plot bool
	width      int
}

// parseOp reads the flags of one operation. Both results are nil after --help.
func (c *command) parseOp(op bench.Op, args []string) (*options, error) {
	o := &options{op: op}
	var sizes cli.Ranges
	f := newFlags("bench "+op.Name, "measure "+op.Name+", in "+string(op.Unit)+": "+op.About)
	for _, name := range []string{"n", "np"} {
		f.IntVar(&o.ranks, name, defaultRanks(op)[0], "start `N` ranks")
	}
	f.BoolVar(&o.json, "json", false, "print one JSON object per line")
	if op.Name != opInit.Name {
		list := cli.NumberList(&sizes)
		f.Var(list, "sizes", "measure messages of these sizes: a `LIST` such as 8,64K,1M, or ranges: 0-1K are the powers of 2")
		f.Var(list, "size", "the same as --sizes `LIST`")
		f.IntVar(&o.cfg.Window, "window", 0, "keep `N` messages in flight in bw, bibw and mbw_mr (default 64)")
		f.DurationVar(&o.cfg.Time, "time", 0, "measure each size for about this `DURATION` (default 50ms)")
		f.IntVar(&o.cfg.Iterations, "iterations", 0, "measure `N` iterations of each size instead of a fixed time")
		f.IntVar(&o.cfg.Warmup, "warmup", 0, "run `N` warm-up iterations before each measurement (default a tenth of its iterations)")
		f.Func("memory", "use at most `BYTES` of buffers per rank (default 512M)", func(text string) (err error) {
			o.cfg.Memory, err = cli.Size(text)
			return err
		})
		f.BoolVar(&o.cfg.Percentiles, "percentiles", false, "print p50, p90 and p99 of single iterations")
		f.BoolVar(&o.cfg.Written, "written", false, "in latency and bw, "+
			"write each message before it is sent; the figures leave out how long that takes")
		f.BoolVar(&o.cfg.Validate, "validate", false, "check the data that arrives")
		f.BoolVar(&o.plot, "plot", false, "draw the figures over the sizes below the table")
		f.IntVar(&o.width, "width", 0, "draw lines of at most `N` characters (default the width of the terminal, or 80)")
	}
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.json && o.plot {
		return nil, usagef("--plot draws below the table; it cannot be combined with --json")
	}
	if err := checkRanks(op, o.ranks); err != nil {
		return nil, usageError{err}
	}
	if f.isSet("sizes", "size") {
		if o.cfg.Sizes = sizesFor(op, sizes); len(o.cfg.Sizes) == 0 {
			return nil, usagef("%s has no point at --sizes %s", op.Name, sizes.String())
		}
	}
	if op.Name != opInit.Name {
		if err := o.cfg.Check(op, o.ranks); err != nil {
			return nil, usageError{err}
		}
	}
	return o, nil
}

// defaultRanks returns the rank counts with which an operation is measured by default.
func defaultRanks(op bench.Op) []int {
	switch {
	case op.Name == opInit.Name:
		return []int{32}
	case op.Collective():
		return []int{2, 4, 8}
	}
	return []int{2}
}

// checkRanks returns an error if op cannot run with n ranks.
func checkRanks(op bench.Op, n int) error {
	if op.Name == opInit.Name {
		if n < 1 {
			return fmt.Errorf("init needs at least 1 rank, not %d", n)
		}
		return nil
	}
	return op.CheckRanks(n)
}

// sizesFor returns the sizes in the ranges that the operation supports. For operations without data the only size is 0.
func sizesFor(op bench.Op, ranges cli.Ranges) []int {
	if op.Name == opInit.Name || op.Takes(0) && !op.Takes(1) {
		return []int{0}
	}
	return sizesTaken(op.Takes, ranges)
}

// flags is a flag set that prints --help on stdout and suggests a similar flag for an unknown one.
type flags struct {
	*flag.FlagSet
	page   manual.Page // without flags
	helped bool
}

// newFlags returns the flags of a command, the words after ibrun. Its summary and about are those of its page.
func newFlags(command, summary string, about ...string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(command, flag.ContinueOnError),
		page: manual.Page{Name: command, Summary: summary, Forms: []string{command + " [flags]"}, About: about}}
	f.SetOutput(new(bytes.Buffer)) // errors are reported by their value
	f.Usage = func() {}
	return f
}

// parse parses the environment and then the arguments. For --help it prints the help and sets helped.
func (f *flags) parse(c *command, args []string) error {
	getenv, err := cli.Lookup(c.env), error(nil)
	f.VisitAll(func(g *flag.Flag) {
		name := "IBRUN_BENCH_" + strings.ToUpper(g.Name)
		if value := getenv(name); value != "" {
			if e := f.Set(g.Name, value); e != nil && err == nil {
				err = usagef("%s=%s: %w", name, value, e)
			}
			if l, ok := g.Value.(*cli.List); ok {
				l.MakeDefault() // which the variable of another name of the flag, or the arguments, override
			}
		}
	})
	if err != nil {
		return err
	}
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.helped = true
		return f.help(c)
	case err != nil:
		var near string
		if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
			var known []string
			f.VisitAll(func(g *flag.Flag) { known = append(known, g.Name) })
			near = didYouMean(name, known)
		}
		return usagef("%w%s", err, near)
	case f.NArg() > 0:
		return usagef("unexpected word %q after `ibrun %s`", f.Arg(0), f.page.Name)
	}
	return nil
}

// help prints the help, or passes the page to who has asked for it.
func (f *flags) help(c *command) error {
	f.page.Groups = []manual.Group{{Title: "Flags", Flags: manual.Flags(f.FlagSet)}}
	if c.described != nil {
		c.described(f.page)
		return nil
	}
	_, err := io.WriteString(c.stdout, f.page.Help())
	return err
}

// isSet reports whether one of the flags was on the command line.
func (f *flags) isSet(names ...string) (yes bool) {
	f.Visit(func(g *flag.Flag) { yes = yes || slices.Contains(names, g.Name) })
	return yes
}

// didYouMean returns " (did you mean X?)" with the most similar known word, or an empty string if none is similar.
func didYouMean(typed string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := cli.EditDistance(typed, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// defaultTime is the default measuring time of each size.
const defaultTime = 50 * time.Millisecond
