package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/verbs"
)

// providers are the providers of package verbs.
var providers = []string{"rxe", "libibverbs"}

// defaultVerbs are the default measurements: the operations that eager and rendezvous messages use.
const defaultVerbs = "send_lat,write_bw,read_bw"

// verbsComparison has the options of `ibrun bench verbs`.
type verbsComparison struct {
	ops        []perftest.Op
	sizes      cli.Ranges
	device     string
	providers  []string
	rounds     int
	time       time.Duration // for the loop of each process
	iterations int           // 0: as many as take that time
	sources    programSources
	program    string // the reference program
	report     *report
}

// openDevice opens a device through a provider, closes it, and returns its name.
func openDevice(device, provider string) (string, error) {
	dev, err := verbs.Open(device, verbs.Options{Provider: provider})
	if err != nil {
		return "", err
	}
	return dev.Name(), dev.Close()
}

// verbs compares package verbs with perftest.
func (c *command) verbs(ctx context.Context, args []string) error {
	v, err := c.parseVerbs(args)
	if err != nil || v == nil {
		return err
	}
	for _, op := range v.ops {
		if _, err := exec.LookPath(op.Program()); err != nil {
			return fmt.Errorf("%s is not installed; install it: apt-get install perftest", op.Program())
		}
	}
	if err := v.openAll(c); err != nil {
		return err
	}
	return untilInterrupted(ctx, func(ctx context.Context) error { return c.buildAndCompareVerbs(ctx, v) })
}

// parseVerbs reads the flags. Both results are nil after --help.
func (c *command) parseVerbs(args []string) (*verbsComparison, error) {
	v := &verbsComparison{report: &report{w: c.stdout}}
	var names []string
	for _, op := range perftest.Ops() {
		names = append(names, op.Name)
	}
	var ops, provider string
	f := newFlags("bench verbs", "compare RDMA with perftest",
		"It compares package verbs with the programs of perftest on one RDMA device, alternating in one run.")
	ops = defaultVerbs
	f.Var(cli.WordList(&ops), "op", fmt.Sprintf("compare these measurements, a comma-separated `LIST` of %s (default %s)",
		strings.Join(names, " "), defaultVerbs))
	sizes := cli.NumberList(&v.sizes)
	f.Var(sizes, "size", "with messages of these sizes, a `LIST` such as 8,64K, or ranges: 1-1K are the powers of 2\n"+
		"(default 8 for latencies, 64K,1M for bandwidths)")
	f.Var(sizes, "sizes", "the same as --size `LIST`")
	f.StringVar(&v.device, "device", "", "on the device of this `NAME` (default the first that works)")
	f.Var(cli.WordList(&provider), "provider", "with these providers, a comma-separated `LIST` of "+
		strings.Join(providers, " and ")+"\n"+
		"(default those that the device has)")
	f.IntVar(&v.rounds, "rounds", verbsRounds, "take the median of `N` rounds")
	f.DurationVar(&v.time, "time", defaultVerbsTime, "measure for about this `DURATION` in each round")
	f.IntVar(&v.iterations, "iterations", 0, "measure `N` iterations instead of a fixed time")
	sourcesFlag(f, &v.sources)
	referenceFlag(f, &v.sources)
	f.BoolVar(&v.report.json, "json", false, "print one JSON object per line")
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if v.rounds < 1 || v.time <= 0 || v.iterations < 0 || v.iterations > 0 && v.iterations < minIterations {
		return nil, usagef("--rounds must be at least 1, --time more than 0, and --iterations at least %d", minIterations)
	}
	opNames, err := nameList("op", ops, names)
	if err != nil {
		return nil, err
	}
	if v.providers, err = nameList("provider", provider, providers); err != nil {
		return nil, err
	}
	for _, name := range opNames {
		op, err := perftest.Lookup(name)
		if err != nil {
			return nil, usageError{err}
		}
		if len(v.sizesOf(op)) == 0 {
			return nil, usagef("%s has no point with --size %s", name, v.sizes.String())
		}
		v.ops = append(v.ops, op)
	}
	return v, nil
}

// sizesOf returns the sizes with which an operation is measured.
func (v *verbsComparison) sizesOf(op perftest.Op) []int {
	if v.sizes == nil {
		return op.Sizes
	}
	return sizesTaken(op.Takes, v.sizes)
}

// openAll finds the device and the providers that can open it.
func (v *verbsComparison) openAll(c *command) error {
	wanted := v.providers
	if wanted == nil {
		wanted = providers
	}
	var failed error
	var works []string
	for _, p := range wanted {
		name, err := c.open(v.device, p)
		switch {
		case err == nil:
			works, v.device = append(works, p), name
		case v.providers != nil || errors.Is(err, verbs.ErrNoDevice):
			return err
		default:
			c.logf("%s is left out: %v", p, err)
			failed = errors.Join(failed, err)
		}
	}
	if v.providers = works; len(works) == 0 {
		return failed
	}
	return nil
}

// buildAndCompareVerbs builds the reference program in a temporary directory, and measures.
func (c *command) buildAndCompareVerbs(ctx context.Context, v *verbsComparison) (err error) {
	dir, err := os.MkdirTemp("", "ibrun-bench-")
	if err != nil {
		return fmt.Errorf("creating a directory for the reference program: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if v.program, err = v.sources.buildReference(ctx, dir, c.cleanEnv()); err != nil {
		return err
	}
	return c.compareVerbs(ctx, v)
}

// compareVerbs measures all operations and sizes. After a failure it continues with the next, and returns all errors.
func (c *command) compareVerbs(ctx context.Context, v *verbsComparison) error {
	c.logf("machine: %s; device %s", machine(), v.device)
	c.logf("ibrun %s, and perftest as it is installed", ibrunVersion())
	c.logf("median of %d rounds", v.rounds)
	var failed error
	for _, op := range v.ops {
		for _, size := range v.sizesOf(op) {
			if err := c.compareVerbsSize(ctx, v, op, size); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", op.Name, bench.FormatSize(size), err))
			}
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	return errors.Join(failed, v.report.printSummary(c.stderr))
}

// compareVerbsSize runs all rounds of one size and prints its lines. Perftest runs first, because ours uses its settings.
func (c *command) compareVerbsSize(ctx context.Context, v *verbsComparison, op perftest.Op, size int) error {
	peer := perftestRunner{device: v.device, op: op, size: size, iterations: v.iterations}
	if peer.iterations == 0 {
		if err := peer.findIterations(ctx, c, v.time); err != nil {
			return err
		}
	}
	figures := map[string][]float64{} // by provider, and "" for the peer
	subjects := append([]string{""}, v.providers...)
	for round := range v.rounds {
		for turn := range subjects {
			provider := subjects[(round+turn)%len(subjects)] // so that the first one changes
			figure, err := 0.0, error(nil)
			if provider == "" {
				figure, err = peer.run(ctx, c, round == 0)
			} else {
				test := perftest.Test{Op: op.Name, Device: v.device, Provider: provider, Size: size, Iterations: peer.iterations,
					Settings: peer.settings}
				figure, err = c.measureVerbs(ctx, v.program, test, round == 0)
			}
			if err != nil {
				return err
			}
			figures[provider] = append(figures[provider], figure)
		}
	}
	unit := bench.Microseconds
	if op.Rate() {
		unit = bench.MegabytesPerSec
	}
	for _, p := range v.providers {
		l := newLine(op.Name, 2, size, unit, samples.Median(figures[p]), samples.Median(figures[""]), "perftest")
		l.Provider = p
		if err := v.report.point(l); err != nil {
			return err
		}
	}
	return nil
}

const (
	verbsRounds          = 21 // a software device is noisy: in every second run the median of 7 is off by 5 %
	defaultVerbsTime     = 300 * time.Millisecond
	minIterations        = 20     // perftest needs 5
	minLatencyIterations = 200    // the median of fewer latencies is not exact
	maxIterations        = 200000 // perftest allocates memory for each
	cqModeration         = 100    // of perftest; the number of iterations is a multiple of it
)

// findIterations sets the number of iterations that take this time, after a short trial run.
func (p *perftestRunner) findIterations(ctx context.Context, c *command, long time.Duration) error {
	const big = 4 << 10
	least := minIterations
	if !p.op.Rate() || p.size <= big {
		least = minLatencyIterations
	}
	p.iterations = least
	figure, err := p.run(ctx, c, false)
	if err != nil {
		return err
	}
	const micro, mega = 1e-6, 1e6
	each := figure * micro * float64(p.op.Messages())
	if p.op.Rate() {
		each = float64(p.size) / (figure * mega)
	}
	n := int(min(long.Seconds()/each, maxIterations))
	if n > cqModeration {
		n -= n % cqModeration
	}
	p.iterations = max(n, least)
	return nil
}
