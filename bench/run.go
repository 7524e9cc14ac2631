package bench

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// Run measures op at each of the configuration's sizes. Every rank of c calls it with the same arguments; rank 0's
// each is called with every result as it comes, the others' never. An error of each ends the measurement at rank 0,
// and the caller has to end the other ranks. Data that arrived wrong is not an error of Run: it is counted in
// [Result.Wrong].
func Run(c *mpi.Comm, op Op, cfg Config, each func(Result) error) error {
	r, op, cfg, err := prepare(c, op, cfg)
	if err != nil {
		return err
	}
	for i, size := range cfg.Sizes {
		if err := r.resize(op, size); err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		if i == 0 && cfg.Iterations == 0 {
			if _, err := r.findIterations(op, 4*cfg.Time); err != nil { // the launcher comes to rest meanwhile
				return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
			}
		}
		res, err := r.measureSize(op, cfg)
		if err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		if r.rank != 0 {
			continue
		}
		if err := each(res); err != nil {
			return err
		}
	}
	return nil
}

// measureSize measures one size. Its result is complete at rank 0 only.
func (r *runner) measureSize(op Op, cfg Config) (res Result, err error) {
	wrong := 0
	if cfg.Validate {
		if wrong, err = r.validate(op); err != nil {
			return res, err
		}
	}
	n := cfg.Iterations
	if n == 0 {
		if n, err = r.findIterations(op, cfg.Time); err != nil {
			return res, err
		}
	}
	skip := cfg.Warmup
	if skip == 0 {
		skip = n / 10
	}
	if cfg.Percentiles {
		r.iterationTimes, r.firstTick, r.lastTick = make([]time.Duration, n), 0, 0
		defer func() { r.iterationTimes = nil }()
	}
	runtime.GC()
	took, _, err := r.runTimed(op, skip, n)
	if err != nil {
		return res, err
	}
	r.ticksToTimes(took)
	res = Result{Op: op.Name, Ranks: r.ranks, Size: r.size, Unit: op.Unit, Iterations: n, Validated: cfg.Validate,
		Written: cfg.Written}
	if cfg.Validate {
		if res.Wrong, err = sumOverRanks(r.comm, wrong+r.countWrong(op, validatedIterations-1)); err != nil {
			return res, err
		}
	}
	return res, r.summarise(op, took, &res)
}

// runTimed runs the loop and returns this rank's measure of it and rank 0's wall clock, which decides for all since
// all must run the same number of turns.
func (r *runner) runTimed(op Op, skip, n int) (took, wall time.Duration, err error) {
	if err := r.comm.Barrier(); err != nil {
		return 0, 0, err
	}
	start := r.now()
	if took, err = op.loop(r, skip, n); err != nil {
		return 0, 0, err
	}
	clock := []time.Duration{r.now() - start}
	err = mpi.Bcast(r.comm, clock, 0)
	return took, clock[0], err
}

// findIterations finds the number of turns that take about as long as budget, three at least unless one alone takes longer.
// The runs that find out are warm-up, too; the measurement is a fresh run, so that one which was slow by chance is not
// the one that counts.
func (r *runner) findIterations(op Op, budget time.Duration) (int, error) {
	if err := r.warmUp(op, budget); err != nil {
		return 0, err
	}
	for n := 1; ; {
		_, wall, err := r.runTimed(op, 0, n)
		if err != nil {
			return 0, err
		}
		grow := 10.0
		if wall > 0 {
			grow = float64(budget) / float64(wall)
		}
		switch {
		case grow <= 1:
			return n, nil
		case grow <= 4:
			return max(3, int(float64(n)*grow)), nil
		}
		n = int(float64(n)*min(grow, 10)) + 1
	}
}

// Before the number of turns is known, there is warm-up, until so many bytes in messages of this size, or so many turns, have
// been run, or so many budgets have passed. It sets up connections. A transport that uses memory in turn, as rings do, is slow
// until it has used all of it once.
const (
	warmupBytes   = 64 << 20
	maxWarmup     = 1000
	warmupBudgets = 40
)

// warmUp runs the loop until the transport has been warmed up.
func (r *runner) warmUp(op Op, budget time.Duration) error {
	left, took := max(1, min(warmupBytes/max(1, r.size), maxWarmup)), time.Duration(0)
	for n := 1; left > 0 && took < warmupBudgets*budget; n = min(2*n, left) {
		_, wall, err := r.runTimed(op, 0, n)
		if err != nil {
			return err
		}
		left -= n
		took += wall
	}
	return nil
}

// summarise combines the ranks' measures at rank 0.
func (r *runner) summarise(op Op, took time.Duration, res *Result) error {
	figure := func(took time.Duration, n int) float64 { return op.figure(took, n, r.size, r.ranks, r.window) }
	clocks := r.ranks
	switch op.kind {
	case pair:
		clocks = 1
	case pairs:
		clocks = r.ranks / 2
	}
	if r.rank >= clocks {
		took = 0
		clear(r.iterationTimes)
	}
	all := make([]time.Duration, r.ranks)
	if err := mpi.Gather(r.comm, all, []time.Duration{took}, 0); err != nil {
		return err
	}
	if r.iterationTimes != nil {
		if err := mpi.Reduce(r.comm, r.iterationTimes, r.iterationTimes, mpi.Max, 0); err != nil {
			return err
		}
	}
	if r.rank != 0 {
		return nil
	}
	var sum time.Duration
	shortest, longest := all[0], all[0]
	for _, t := range all[:clocks] {
		sum += t
		shortest, longest = min(shortest, t), max(longest, t)
	}
	res.Value = figure(sum/time.Duration(clocks), res.Iterations)
	if op.Collective() {
		res.Fastest, res.Slowest = figure(shortest, res.Iterations), figure(longest, res.Iterations)
	}
	if r.iterationTimes != nil {
		res.Percentiles = percentilesOf(r.iterationTimes, func(t time.Duration) float64 { return figure(t, 1) })
	}
	return nil
}
