package benchcmd

import (
	"context"
	"strconv"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/mpi"
)

// overhead has the options of `ibrun bench overhead`, which measures the cost of recording.
type overhead struct {
	ops    []bench.Op
	ranks  int
	sizes  cli.Ranges
	rounds int
	time   time.Duration
	report *report
}

// The settings that alternate. They are levels of Pcontrol.
const (
	recordingOff = iota
	recordingOn
	recordingLevels
)

func (c *command) overhead(ctx context.Context, args []string) error {
	o, err := c.parseOverhead(args)
	if err != nil || o == nil {
		return err
	}
	if c.isRank() {
		return c.measureOverhead(ctx, o)
	}
	words := []string{"-n", strconv.Itoa(o.ranks), "--", c.self, "bench", "overhead"}
	if code := c.ibrun(append(words, args...)); code != 0 {
		return exitError{code}
	}
	return nil
}

// parseOverhead reads the flags. Both results are nil after --help.
func (c *command) parseOverhead(args []string) (*overhead, error) {
	o := &overhead{report: &report{w: c.stdout, baseline: "the same without recording"}}
	var ops string
	f := newFlags("bench overhead", "measure the cost of recording",
		"It measures operations with recording and without, alternating in one run.")
	for _, name := range []string{"n", "np"} {
		f.IntVar(&o.ranks, name, 2, "start `N` ranks")
	}
	ops = "latency"
	f.Var(cli.WordList(&ops), "op", "measure these operations, a comma-separated `LIST`")
	sizes := cli.NumberList(&o.sizes)
	f.Var(sizes, "size", "at these sizes, a `LIST` such as 8,64K,1M, or ranges: 0-1K are the powers of 2 (default 8,4K-4M)")
	f.Var(sizes, "sizes", "the same as --size `LIST`")
	f.IntVar(&o.rounds, "rounds", 51, "take the median of `N` rounds (at least 7)")
	f.DurationVar(&o.time, "time", 4*time.Millisecond, "measure each size for about this `DURATION` in each round")
	f.BoolVar(&o.report.json, "json", false, "print one JSON object per line")
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.rounds < minRounds || o.time <= 0 {
		return nil, usagef("--rounds must be at least %d, and --time more than 0", minRounds)
	}
	if cli.Lookup(c.env)("IBRUN_PERF") == "off" {
		return nil, usagef("nothing is recorded with IBRUN_PERF=off: unset it")
	}
	var err error
	if o.ops, err = opList(ops); err != nil {
		return nil, err
	}
	if o.sizes == nil {
		o.sizes = cli.Ranges{{Low: 8, High: 8}, {Low: 4 << 10, High: 4 << 20}}
	}
	for _, op := range o.ops {
		if op.Name == opInit.Name {
			return nil, usagef("recording begins after init, so init cannot be measured")
		}
		if err := checkRanks(op, o.ranks); err != nil {
			return nil, usageError{err}
		}
		if len(sizesFor(op, o.sizes)) == 0 {
			return nil, usagef("%s has no point at --size %s", op.Name, o.sizes.String())
		}
	}
	return o, nil
}

// measureOverhead is the rank program: every rank measures, rank 0 prints.
func (c *command) measureOverhead(ctx context.Context, o *overhead) error {
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	for _, op := range o.ops {
		cfg := bench.Config{Sizes: sizesFor(op, o.sizes), Time: o.time}
		set := func(level int) error {
			p.Pcontrol(level)
			return nil
		}
		err := bench.Alternate(p.World(), op, cfg, o.rounds, recordingLevels, set, func(a bench.Alternation) error {
			on, off := a.Results[recordingOn], a.Results[recordingOff]
			return o.report.point(newLine(op.Name, on.Ranks, on.Size, on.Unit, on.Value, off.Value, "off"))
		})
		if err != nil {
			return err // without Finalize: the job ends with this rank's exit code
		}
	}
	if p.World().Rank() == 0 {
		if err := o.report.printSummary(c.stderr); err != nil {
			return err
		}
	}
	return p.Finalize()
}
