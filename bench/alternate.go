package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/mpi"
)

// Alternation is what [Alternate] has measured at one size.
type Alternation struct {
	// Results has one result for each setting, whose Value is the median of the rounds, and Iterations those of all.
	Results []Result
	// Rounds has the figures of each setting in the order of the rounds.
	Rounds [][]float64
}

// Alternate measures op at each of the configuration's sizes under some settings, numbered from 0, that take turns: in each of
// the rounds every rank calls set with the number of each setting, in an order that is drawn, and then measures for as long as
// cfg.Time says. What changes on the machine meanwhile changes all of them. Every rank of c calls it with the same arguments.
// Rank 0's each is called with what was measured at each size. An error of set or each ends the measurement.
func Alternate(
	c *mpi.Comm, op Op, cfg Config, rounds, settings int, set func(setting int) error, each func(Alternation) error,
) error {
	if rounds < 1 || settings < 1 {
		return fmt.Errorf("bench: %d rounds of %d settings", rounds, settings)
	}
	r, op, cfg, err := prepare(c, op, cfg)
	if err != nil {
		return err
	}
	for _, size := range cfg.Sizes {
		if err := r.resize(op, size); err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		a, err := r.alternateSize(op, cfg, rounds, settings, set)
		if err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		if r.rank != 0 {
			continue
		}
		if err := each(a); err != nil {
			return err
		}
	}
	return nil
}

// alternateSize measures one size. What it returns is complete at rank 0 only.
func (r *runner) alternateSize(op Op, cfg Config, rounds, settings int, set func(int) error) (a Alternation, err error) {
	iterations := make([]int, settings)
	for i := range settings {
		if err := set(i); err != nil {
			return a, err
		}
		if iterations[i] = cfg.Iterations; iterations[i] == 0 {
			if iterations[i], err = r.findIterations(op, cfg.Time); err != nil {
				return a, err
			}
		}
	}
	runtime.GC()
	turns := rand.New(rand.NewPCG(uint64(r.size), 0)) // the same at all ranks
	a = Alternation{make([]Result, settings), make([][]float64, settings)}
	for range rounds {
		for _, i := range turns.Perm(settings) {
			if err := set(i); err != nil {
				return a, err
			}
			took, _, err := r.runTimed(op, iterations[i]/10, iterations[i])
			if err != nil {
				return a, err
			}
			res := Result{Op: op.Name, Ranks: r.ranks, Size: r.size, Unit: op.Unit, Iterations: iterations[i],
				Written: cfg.Written}
			if err := r.summarise(op, took, &res); err != nil {
				return a, err
			}
			a.Rounds[i] = append(a.Rounds[i], res.Value)
			res.Iterations += a.Results[i].Iterations
			a.Results[i] = res
		}
	}
	for i, v := range a.Rounds {
		a.Results[i].Value = samples.Median(v)
	}
	return a, nil
}
