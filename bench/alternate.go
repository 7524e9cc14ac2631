package bench

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/ibrun/ibrun/mpi"
)

// Alternate measures op at each of the configuration's sizes under some settings, numbered from 0, that take turns: in each
// of the rounds every rank calls set with the number of each setting and then measures for as long as cfg.Time says. What
// changes on the machine meanwhile changes all of them. Every rank of c calls it with the same arguments; rank 0's each is
// called with one result for each setting, whose Value is the median of the rounds and Iterations those of all.
func Alternate(c *mpi.Comm, op Op, cfg Config, rounds, settings int, set func(setting int), each func([]Result) error) error {
	if rounds < 1 || settings < 1 {
		return fmt.Errorf("bench: %d rounds of %d settings", rounds, settings)
	}
	r, cfg, err := prepare(c, op, cfg)
	if err != nil {
		return err
	}
	for _, size := range cfg.Sizes {
		if err := r.resize(op, size); err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		results, err := r.alternateSize(op, cfg, rounds, settings, set)
		if err != nil {
			return fmt.Errorf("bench: %s of %s: %w", op.Name, FormatSize(size), err)
		}
		if r.rank != 0 {
			continue
		}
		if err := each(results); err != nil {
			return err
		}
	}
	return nil
}

// alternateSize measures one size. Its results are complete at rank 0 only.
func (r *runner) alternateSize(op Op, cfg Config, rounds, settings int, set func(int)) ([]Result, error) {
	n, err := cfg.Iterations, error(nil)
	if n == 0 {
		if n, err = r.findIterations(op, cfg.Time); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	results := make([]Result, settings)
	values := make([][]float64, settings)
	for round := range rounds {
		for k := range settings {
			i := (round + k) % settings // no setting is always the first
			set(i)
			took, _, err := r.runTimed(op, n/10, n)
			if err != nil {
				return nil, err
			}
			res := Result{Op: op.Name, Ranks: r.ranks, Size: r.size, Unit: op.Unit, Iterations: n}
			if err := r.summarise(op, took, &res); err != nil {
				return nil, err
			}
			values[i] = append(values[i], res.Value)
			res.Iterations += results[i].Iterations
			results[i] = res
		}
	}
	for i, v := range values {
		slices.Sort(v)
		results[i].Value = (v[(rounds-1)/2] + v[rounds/2]) / 2
	}
	return results, nil
}
