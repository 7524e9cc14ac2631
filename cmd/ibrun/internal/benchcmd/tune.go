package benchcmd

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/mpi/explain"
)

const tuneOp = "tune"

// tuning has the options of `ibrun bench tune`.
type tuning struct {
	names        []string
	ranks, sizes []int
	rounds       int
	time         time.Duration
	transport    string
	output       string
}

// tune measures every algorithm of collectives, and writes the fastest for each size and number of ranks to a file.
func (c *command) tune(ctx context.Context, args []string) error {
	o, err := c.parseTune(args)
	if err != nil || o == nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ibrun-tune-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var rules []explain.Rule
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "collective\tranks\tsize\tfastest\ttime (us)\tothers")
	for _, name := range o.names {
		op, err := lookup(name)
		if err != nil {
			return err
		}
		for i, n := range o.ranks {
			found, err := c.tuneOne(ctx, o, op, n, dir, table)
			if err != nil {
				return err
			}
			last := n
			if i+1 < len(o.ranks) {
				last = o.ranks[i+1] - 1
			}
			rules = append(rules, o.rules(name, n, last, found)...)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	err = outfile.Write(o.output, func(f *os.File) error {
		_, err := f.Write(explain.EncodeTable(rules))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "\nUse it with %s=%s in the environment of all ranks.\n", explain.TableVariable, o.output)
	return nil
}

// tuneOne returns the fastest algorithm of a collective for each size, and prints it. Algorithms are measured alternately.
func (c *command) tuneOne(ctx context.Context, o *tuning, op bench.Op, ranks int, dir string, table *tabwriter.Writer) (
	fastest []string, err error,
) {
	algorithms := explain.Algorithms(op.Name, ranks, false)
	figures := make([]map[int]float64, len(algorithms))
	for i := range figures {
		figures[i] = map[int]float64{}
	}
	for range o.rounds {
		for i, a := range algorithms {
			path := fmt.Sprintf("%s/%s.json", dir, strings.ReplaceAll(a, " ", "_"))
			if err := os.WriteFile(path, explain.EncodeTable([]explain.Rule{{Collective: op.Name, Algorithm: a}}), 0o600); err != nil {
				return nil, err
			}
			s := c.ibrunSubject(o.transport)
			s.environ = append(s.environ, explain.TableVariable+"="+path)
			points, err := s.run(ctx, job{op: op, ranks: ranks, sizes: o.sizesOf(op), time: o.time})
			if err != nil {
				return nil, err
			}
			for size, us := range points {
				if before, ok := figures[i][size]; !ok || us < before {
					figures[i][size] = us
				}
			}
		}
	}
	for _, size := range o.sizesOf(op) {
		best := 0
		for i := range algorithms {
			if figures[i][size] < figures[best][size] {
				best = i
			}
		}
		var others []string
		for i, a := range algorithms {
			if i != best {
				others = append(others, fmt.Sprintf("%s %.2f", a, figures[i][size]))
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.2f\t%s\n", op.Name, ranks, bench.FormatSize(size), algorithms[best], figures[best][size],
			strings.Join(others, ", "))
		fastest = append(fastest, algorithms[best])
	}
	return fastest, nil
}

// sizesOf returns the sizes for which an operation is measured.
func (o *tuning) sizesOf(op bench.Op) []int {
	if op.Name == "barrier" {
		return []int{0}
	}
	return o.sizes
}

// rules returns the rules for first to last ranks. The limit between two sizes with different algorithms is their geometric
// mean. The last rule has no limit.
func (o *tuning) rules(name string, first, last int, fastest []string) (rules []explain.Rule) {
	for i, a := range fastest {
		if i+1 < len(fastest) && fastest[i+1] == a {
			continue
		}
		r := explain.Rule{Collective: name, Algorithm: a, MinRanks: first, MaxRanks: last}
		if i+1 < len(fastest) {
			r.MaxBytes = int(math.Sqrt(float64(o.sizes[i]) * float64(o.sizes[i+1])))
		}
		rules = append(rules, r)
	}
	return rules
}

// parseTune reads the collectives and the flags. Both results are nil after --help.
func (c *command) parseTune(args []string) (*tuning, error) {
	o := &tuning{}
	f := newFlags("bench tune", "Measure every algorithm of collectives, such as allreduce,alltoall, or all collectives,\n"+
		"and write the fastest for each size and number of ranks to a file. `ibrun bench tune [LIST] --output FILE [flags]`")
	var ranks, sizes cli.Ranges
	f.Var(&ranks, "ranks", "measure with these numbers of ranks: a `LIST` (default 2)")
	f.Var(&sizes, "sizes", "measure these sizes: a `LIST` such as 8,64K,1M, or ranges (default 8,1K,16K,128K,1M)")
	f.IntVar(&o.rounds, "rounds", 3, "take the best of `N` rounds")
	f.DurationVar(&o.time, "time", 20*time.Millisecond, "measure each size for about this `DURATION` in a round")
	f.StringVar(&o.transport, "transport", "shm,rdma,tcp", "use the transports of the comma-separated `LIST`")
	f.StringVar(&o.output, "output", "", "write the table to `FILE`")
	if len(args) != 0 && !strings.HasPrefix(args[0], "-") {
		o.names, args = strings.Split(args[0], ","), args[1:]
	}
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.names == nil {
		o.names = explain.Measured()
	}
	for _, name := range o.names {
		if !slices.Contains(explain.Measured(), name) {
			return nil, usagef("%q cannot be tuned; of %s", name, strings.Join(explain.Measured(), ", "))
		}
	}
	o.ranks, o.sizes = sorted(ranks, []int{2}), sorted(sizes, []int{8, 1 << 10, 16 << 10, 128 << 10, 1 << 20})
	switch {
	case o.output == "":
		return nil, usagef("want --output FILE")
	case o.rounds < 1 || o.time <= 0:
		return nil, usagef("--rounds and --time must be above 0")
	case o.ranks[0] < 2 || o.sizes[0] < 1:
		return nil, usagef("want two ranks and one byte at least")
	}
	return o, nil
}

// sorted returns the numbers in ranges, or those that stand for none.
func sorted(ranges cli.Ranges, none []int) (list []int) {
	for _, r := range ranges {
		list = append(list, bench.Ladder(r.Low, r.High)...)
	}
	if list == nil {
		return none
	}
	slices.Sort(list)
	return slices.Compact(list)
}
