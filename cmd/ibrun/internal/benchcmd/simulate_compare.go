package benchcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/mpi/explain"
	"github.com/ibrun/ibrun/mpi/simulate"
)

// comparedRun is a collective that was run by real ranks, and simulated. Times are in us.
type comparedRun struct {
	Collective string  `json:"collective"`
	Algorithm  string  `json:"algorithm"`
	Bytes      int     `json:"bytes"`
	Ranks      int     `json:"ranks"`
	Measured   float64 `json:"measured"`
	Simulated  float64 `json:"simulated"`
	Ratio      float64 `json:"ratio"` // simulated / measured
}

// compareRounds is the number of rounds of which the shortest time counts.
const compareRounds = 3

// compareSimulation prints measured and simulated times of collectives on this machine.
func (c *command) compareSimulation(ctx context.Context, o *simulation) error {
	dir, err := os.MkdirTemp("", "ibrun-simulate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.cfg.Cores = runtime.NumCPU()
	if o.cfg.Model, err = c.measureModel(ctx, o); err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	if !o.json {
		fmt.Fprintf(c.stdout, "# a message over %s takes %v of sender and receiver each, and %.3g GB/s; %d cores (measured here)\n",
			o.transport, o.cfg.Model.Node.Overhead, o.cfg.Model.Node.Bandwidth/1e9, o.cfg.Cores)
		fmt.Fprintln(table, "collective\tranks\tsize\talgorithm\tmeasured (us)\tsimulated (us)\tsimulated/measured\t")
	}
	var all []comparedRun
	for _, name := range o.names {
		for _, n := range o.compare {
			runs, err := c.compareCollective(ctx, o, name, n, dir)
			if err != nil {
				return err
			}
			for _, x := range runs {
				if o.json {
					if err := json.NewEncoder(printable.NewJSONWriter(c.stdout)).Encode(x); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.1f\t%.1f\t%.2f\t\n", x.Collective, x.Ranks, bench.FormatSize(x.Bytes), x.Algorithm,
					x.Measured, x.Simulated, x.Ratio)
			}
			all = append(all, runs...)
		}
	}
	if o.json {
		return nil
	}
	if err := table.Flush(); err != nil {
		return err
	}
	median, worst, at := simulationError(all)
	_, err = fmt.Fprintf(c.stdout, "\nerror: a factor of %.2f in the median of %d runs, at most %.1f (%s by %s, %d ranks, %s)\n",
		median, len(all), worst, at.Collective, at.Algorithm, at.Ranks, bench.FormatSize(at.Bytes))
	return err
}

// measureModel measures what messages cost between ranks of this machine. There is no wire between them: a short message is work
// of processors, half of it at either side, so that the model has no latency. That matters if there are more ranks than cores.
func (c *command) measureModel(ctx context.Context, o *simulation) (simulate.Model, error) {
	op, err := lookup("latency")
	if err != nil {
		return simulate.Model{}, err
	}
	const short, long = 8, 64 << 10
	best := map[int]float64{}
	for range compareRounds {
		points, err := c.ibrunSubject(o.transport).run(ctx, job{op: op, ranks: 2, sizes: []int{short, long}, time: o.time})
		if err != nil {
			return simulate.Model{}, err
		}
		keepBest(best, points)
	}
	m := simulate.DefaultModel
	if best[long] <= best[short] {
		return m, fmt.Errorf("a message of %d bytes took %.2f us, one of %d took %.2f us: measure longer, with --time",
			short, best[short], long, best[long])
	}
	m.Node = simulate.Link{
		Overhead:  time.Duration(best[short] / 2 * float64(time.Microsecond)),
		Bandwidth: (long - short) / (best[long] - best[short]) * 1e6,
	}
	return m, nil
}

// compareCollective measures and simulates a collective by each algorithm with messages, for each size.
func (c *command) compareCollective(ctx context.Context, o *simulation, name string, ranks int, dir string) (
	runs []comparedRun, err error,
) {
	op, err := lookup(name)
	if err != nil {
		return nil, err
	}
	cfg := o.cfg
	cfg.Ranks, cfg.RanksPerNode = ranks, ranks
	sizes := o.sizes
	if name == "barrier" {
		sizes = []int{0}
	}
	measured := map[string]map[int]float64{} // by algorithm and size
	for _, size := range sizes {
		results, err := simulate.Run(cfg, name, size)
		if err != nil {
			return nil, err
		}
		for _, x := range results {
			if x.Skipped != "" {
				return nil, fmt.Errorf("%s of %d bytes by %s cannot be simulated: %s", name, size, x.Algorithm, x.Skipped)
			}
			if measured[x.Algorithm] == nil {
				measured[x.Algorithm] = map[int]float64{}
				j := job{op: op, ranks: ranks, sizes: sizes, time: o.time}
				for range compareRounds {
					s := c.ibrunSubject(o.transport)
					if err := s.useRules([]explain.Rule{{Collective: name, Algorithm: x.Algorithm}}, dir); err != nil {
						return nil, err
					}
					points, err := s.run(ctx, j)
					if err != nil {
						return nil, err
					}
					keepBest(measured[x.Algorithm], points)
				}
			}
			r := comparedRun{Collective: name, Algorithm: x.Algorithm, Bytes: size, Ranks: ranks,
				Measured: measured[x.Algorithm][size], Simulated: float64(x.Time) / float64(time.Microsecond)}
			r.Ratio = r.Simulated / r.Measured
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// simulationError returns by which factor simulated times differ from measured ones, above or below: the median, and the largest
// and its run.
func simulationError(runs []comparedRun) (median, worst float64, at comparedRun) {
	factor := func(x comparedRun) float64 { return max(x.Ratio, 1/x.Ratio) }
	var all []float64
	for _, x := range runs {
		f := factor(x)
		if all = append(all, f); f > worst {
			worst, at = f, x
		}
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2, worst, at
}

// keepBest stores the times of a round that are shorter than those before.
func keepBest(best, round map[int]float64) {
	for size, us := range round {
		if before, ok := best[size]; !ok || us < before {
			best[size] = us
		}
	}
}
