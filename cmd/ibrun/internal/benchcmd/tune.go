package benchcmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/internal/transports"
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
	report       *report
	found        []explain.Rule // the rules so far
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
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)
	if !o.report.json {
		fmt.Fprintln(table, "collective\tranks\tsize\tfastest\ttime (us)\tratio\tchosen\tothers")
	}
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
			o.found = append(o.found, o.rules(name, n, last, found)...)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if o.rounds >= minPathRounds {
		if err := o.report.printSummary(c.stderr); err != nil {
			return err
		}
	}
	if o.output == "" {
		return nil
	}
	err = outfile.Write(o.output, func(f *os.File) error {
		_, err := f.Write(explain.EncodeTable(o.found))
		return err
	})
	if err != nil {
		return err
	}
	w := c.stdout
	if o.report.json {
		w = c.stderr
	}
	fmt.Fprintf(w, "\nUse it with %s=%s in the environment of all ranks.\n", explain.TableVariable, o.output)
	return nil
}

// tuneOne returns the fastest algorithm of a collective for each size, and prints it, and how it compares with the one that is
// chosen without a table. These are measured alternately.
func (c *command) tuneOne(ctx context.Context, o *tuning, op bench.Op, ranks int, dir string, table io.Writer) (
	fastest []string, err error,
) {
	algorithms := slices.Insert(explain.Algorithms(op.Name, ranks, o.hosts != ""), 0, chosenByRank)
	rounds := make([]map[int][]float64, len(algorithms)) // by algorithm and size
	for i := range rounds {
		rounds[i] = map[int][]float64{}
	}
	j := job{op: op, ranks: ranks, sizes: o.sizesOf(op), time: o.time}
	for range o.rounds {
		for i, a := range algorithms {
			s := c.ibrunSubject(o.transport, o.flags()...)
			if i > 0 {
				rules := []explain.Rule{{Collective: op.Name, Algorithm: a, Nodes: o.hosts != ""}}
				if strings.HasPrefix(op.Name, "i") { // the blocking form's rules say how an immediate one uses messages
					rules = append(rules, o.found...)
				}
				if err := s.useRules(rules, dir); err != nil {
					return nil, err
				}
			}
			points, err := s.run(ctx, j)
			if err != nil {
				return nil, err
			}
			for size, us := range points {
				rounds[i][size] = append(rounds[i][size], us)
			}
		}
	}
	for _, size := range j.sizes {
		values := make([][]float64, len(algorithms))
		least := make([]float64, len(algorithms))
		best := 1
		for i := range algorithms {
			values[i], least[i] = rounds[i][size], slices.Min(rounds[i][size])
			if i > 0 && least[i] < least[best] {
				best = i
			}
		}
		fastest = append(fastest, algorithms[best])
		if err := o.printSize(table, op, ranks, size, algorithms, values, least, best); err != nil {
			return nil, err
		}
	}
	return fastest, nil
}

// printSize prints the figures of one size. least are the shortest times of the algorithms, of which the one with the index best
// is the fastest, and the first was chosen.
func (o *tuning) printSize(table io.Writer, op bench.Op, ranks, size int, algorithms []string, values [][]float64,
	least []float64, best int,
) error {
	chosen, err := o.chosen(op.Name, ranks, size, algorithms)
	if err != nil {
		return err
	}
	ratio := "-"
	if o.rounds >= minPathRounds {
		l := compareChoice(op, ranks, size, algorithms, values)
		l.Transport, l.Chosen, l.Algorithms, l.Protocols = o.transport, chosen, l.Protocols, nil
		if o.report.json {
			return o.report.point(l)
		}
		o.report.addRatio(l)
		ratio = fmt.Sprintf("%.2f [%.2f %.2f] to %s", l.Ratio, l.Low, l.High, l.PeerName)
	}
	var others []string
	for i, a := range algorithms[1:] {
		if i+1 != best {
			others = append(others, fmt.Sprintf("%s %.2f", a, least[i+1]))
		}
	}
	_, err = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.2f\t%s\t%s\t%s\n", op.Name, ranks, bench.FormatSize(size), algorithms[best],
		least[best], ratio, chosen, strings.Join(others, ", "))
	return err
}

// chosen returns the one of these algorithms that is chosen without a table, as far as that is known here: ranks that are bound
// to several NUMA nodes, or share cores on several hosts, may choose another one.
func (o *tuning) chosen(name string, ranks, size int, algorithms []string) (string, error) {
	blocking, immediate := strings.CutPrefix(name, "i")
	all, err := explain.Collectives(func(string) string { return "" }, []string{blocking}, []int{size}, []int{ranks})
	switch {
	case err != nil:
		return "", err
	case immediate && slices.Contains(algorithms, all[0].Immediate.Name):
		return all[0].Immediate.Name, nil
	case immediate:
		return explain.MessagesName, nil
	case o.hosts != "":
		return all[0].OnNodes.Name, nil
	case !o.usesShm():
		return all[0].Apart.Name, nil
	case ranks > runtime.NumCPU():
		return all[0].OnOversubscribedNode.Name, nil
	}
	return all[0].OnNode.Name, nil
}

// usesShm reports whether the ranks use shared memory.
func (o *tuning) usesShm() bool {
	return o.transport == transports.Auto || slices.Contains(listItems(o.transport), transports.Shm.String())
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

// useRules makes the jobs of p use a table, which is written to dir. Its first rule is what differs from other tables.
func (p *subject) useRules(rules []explain.Rule, dir string) error {
	path := fmt.Sprintf("%s/%s.json", dir, strings.ReplaceAll(rules[0].Algorithm, " ", "_"))
	if err := os.WriteFile(path, explain.EncodeTable(rules), 0o600); err != nil {
		return err
	}
	p.environ = append(p.environ, explain.TableVariable+"="+path)
	return nil
}

// sizesOf returns the sizes for which an operation is measured.
func (o *tuning) sizesOf(op bench.Op) []int {
	if op.Name == "barrier" || op.Name == "ibarrier" {
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
	o := &tuning{report: &report{w: c.stdout, baseline: "the fastest algorithm at each size"}}
	f := newFlags("bench tune", "find the fastest algorithms of collectives",
		"It measures every algorithm of the collectives in LIST, such as allreduce,ibcast, or of all, blocking and immediate, and "+
			"writes the fastest for each size and number of ranks to a file. It also compares the algorithm that is chosen without a "+
			"table with the fastest one, in at least 4 rounds: the fastest is found in the even rounds, and both are compared in the "+
			"odd ones. It prints the ratio, above 1 if the choice is the faster one, and its 95 % interval.")
	f.page.Forms = []string{"bench tune [LIST] [flags]"}
	var ranks, sizes cli.Ranges
	f.Var(cli.NumberList(&ranks), "ranks", "measure with these numbers of ranks: a `LIST` (default 2)")
	f.Var(cli.NumberList(&sizes), "sizes", "measure these sizes: a `LIST` such as 8,64K,1M, or ranges (default 8,1K,16K,128K,1M)")
	f.IntVar(&o.rounds, "rounds", 8, "take the best of `N` rounds")
	f.DurationVar(&o.time, "time", 20*time.Millisecond, "measure each size for about this `DURATION` in a round")
	o.transport = "shm,rdma,tcp"
	f.Var(cli.WordList(&o.transport), "transport", "use the transports of the comma-separated `LIST`")
	f.StringVar(&o.output, "output", "", "write the table to `FILE`, for the variable "+explain.TableVariable)
	f.BoolVar(&o.report.json, "json", false, "print one JSON object per line")
	f.Var(cli.WordList(&o.hosts), "hosts", "measure between these hosts, with so many ranks each: a `LIST` such as a:4,b:4.\n"+
		"The table is then for jobs on several nodes. All hosts must have the directory of --output")
	f.StringVar(&o.agent, "launch-agent", "", "start ibrun on the hosts by `CMD` HOST COMMAND..., instead of ssh")
	o.names, args = leadingList(args)
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	known := explain.Measured(o.hosts != "" || !o.usesShm())
	if o.names == nil {
		o.names = known
	}
	for _, name := range o.names {
		switch {
		case slices.Contains(known, name):
		case slices.Contains(explain.Measured(false), name):
			return nil, usagef("%s is tuned within one node, over shared memory: it wants no --hosts, and shm in --transport", name)
		default:
			return nil, usagef("%q cannot be tuned; of %s", name, strings.Join(known, ", "))
		}
	}
	o.ranks, o.sizes = sorted(ranks, []int{2}), sorted(sizes, []int{8, 1 << 10, 16 << 10, 128 << 10, 1 << 20})
	switch {
	case o.hosts != "" && o.output == "":
		return nil, usagef("with --hosts it wants --output FILE, in a directory that all hosts have")
	case o.report.json && o.rounds < minPathRounds:
		return nil, usagef("with --json it wants --rounds of at least %d", minPathRounds)
	case o.rounds < 1 || o.time <= 0:
		return nil, usagef("--rounds and --time must be above 0")
	case o.ranks[0] < 2 || o.sizes[0] < 1:
		return nil, usagef("want two ranks and one byte at least")
	}
	return o, nil
}
