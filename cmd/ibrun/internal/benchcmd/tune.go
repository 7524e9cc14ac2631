package benchcmd

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
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
	hosts, agent string // empty: this one
}

// tune measures every algorithm of collectives, and writes the fastest for each size and number of ranks to a file.
func (c *command) tune(ctx context.Context, args []string) error {
	o, err := c.parseTune(args)
	if err != nil || o == nil {
		return err
	}
	dir, err := os.MkdirTemp(o.tables(), "ibrun-tune-")
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
	algorithms := explain.Algorithms(op.Name, ranks, o.hosts != "")
	figures := make([]map[int]float64, len(algorithms))
	for i := range figures {
		figures[i] = map[int]float64{}
	}
	for range o.rounds {
		for i, a := range algorithms {
			j := job{op: op, ranks: ranks, sizes: o.sizesOf(op), time: o.time}
			rule := explain.Rule{Collective: op.Name, Algorithm: a, Nodes: o.hosts != ""}
			points, err := c.ibrunSubject(o.transport, o.flags()...).runWith(ctx, j, rule, dir)
			if err != nil {
				return nil, err
			}
			keepBest(figures[i], points)
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

// tables returns the directory for the tables of single measurements: that of the output, which all hosts have; empty for any.
func (o *tuning) tables() string {
	if o.hosts == "" {
		return ""
	}
	return filepath.Dir(o.output)
}

// flags returns the flags of the jobs that measure.
func (o *tuning) flags() (flags []string) {
	if o.hosts != "" {
		flags = append(flags, "--hosts", o.hosts)
	}
	if o.agent != "" {
		flags = append(flags, "--launch-agent", o.agent)
	}
	return flags
}

// runWith runs a job whose collective uses one algorithm. The table that says so is written to dir.
func (p *subject) runWith(ctx context.Context, j job, rule explain.Rule, dir string) (map[int]float64, error) {
	path := fmt.Sprintf("%s/%s.json", dir, strings.ReplaceAll(rule.Algorithm, " ", "_"))
	if err := os.WriteFile(path, explain.EncodeTable([]explain.Rule{rule}), 0o600); err != nil {
		return nil, err
	}
	p.environ = append(p.environ, explain.TableVariable+"="+path)
	return p.run(ctx, j)
}

// keepBest stores the times of a round that are shorter than those before.
func keepBest(best, round map[int]float64) {
	for size, us := range round {
		if before, ok := best[size]; !ok || us < before {
			best[size] = us
		}
	}
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
		r := explain.Rule{Collective: name, Algorithm: a, MinRanks: first, MaxRanks: last, Nodes: o.hosts != ""}
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
	f := newFlags("bench tune", "find the fastest algorithms of collectives",
		"It measures every algorithm of the collectives in LIST, such as allreduce,alltoall, or of all, and writes the fastest for "+
			"each size and number of ranks to a file.")
	f.page.Forms = []string{"bench tune [LIST] --output FILE [flags]"}
	var ranks, sizes cli.Ranges
	f.Var(cli.NumberList(&ranks), "ranks", "measure with these numbers of ranks: a `LIST` (default 2)")
	f.Var(cli.NumberList(&sizes), "sizes", "measure these sizes: a `LIST` such as 8,64K,1M, or ranges (default 8,1K,16K,128K,1M)")
	f.IntVar(&o.rounds, "rounds", 3, "take the best of `N` rounds")
	f.DurationVar(&o.time, "time", 20*time.Millisecond, "measure each size for about this `DURATION` in a round")
	o.transport = "shm,rdma,tcp"
	f.Var(cli.WordList(&o.transport), "transport", "use the transports of the comma-separated `LIST`")
	f.StringVar(&o.output, "output", "", "write the table to `FILE`")
	f.Var(cli.WordList(&o.hosts), "hosts", "measure between these hosts, with so many ranks each: a `LIST` such as a:4,b:4.\n"+
		"The table is then for jobs on several nodes. All hosts must have the directory of --output")
	f.StringVar(&o.agent, "launch-agent", "", "start ibrun on the hosts by `CMD` HOST COMMAND..., instead of ssh")
	o.names, args = leadingList(args)
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
