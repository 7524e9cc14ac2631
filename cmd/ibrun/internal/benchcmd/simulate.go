package benchcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/mpi/simulate"
)

const simulateOp = "simulate"

// simulation has the options of `ibrun bench simulate`.
type simulation struct {
	names []string
	sizes []int
	json  bool
	cfg   simulate.Config

	// Of --compare.
	compare   []int // numbers of real ranks; nil: only simulate
	transport string
	time      time.Duration
}

// simulate prints how long the algorithms of collectives take on a simulated cluster.
func (c *command) simulate(ctx context.Context, args []string) error {
	o, err := c.parseSimulate(args)
	if err != nil || o == nil {
		return err
	}
	if o.compare != nil {
		return c.compareSimulation(ctx, o)
	}
	table := tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	if !o.json {
		fmt.Fprintf(c.stdout, "# %d ranks, %d on a node; %v and %.3g GB/s within a node, %v and %.3g GB/s between nodes (simulated)\n",
			o.cfg.Ranks, o.cfg.RanksPerNode, o.cfg.Model.Node.Latency, o.cfg.Model.Node.Bandwidth/1e9,
			o.cfg.Model.Network.Latency, o.cfg.Model.Network.Bandwidth/1e9)
		fmt.Fprintln(table, "collective\tsize\talgorithm\ttime\tmessages of a rank\tbytes of all ranks\t")
	}
	for _, name := range o.names {
		for _, size := range o.sizes {
			if name == "barrier" {
				size = 0
			}
			results, err := simulate.Run(o.cfg, name, size)
			if err != nil {
				return err
			}
			if err := o.print(c, table, results); err != nil {
				return err
			}
			if name == "barrier" {
				break
			}
		}
	}
	return table.Flush()
}

// print prints the results of a collective. That of the algorithm that is used is marked.
func (o *simulation) print(c *command, table *tabwriter.Writer, results []simulate.Result) error {
	for _, x := range results {
		if o.json {
			if err := json.NewEncoder(printable.NewJSONWriter(c.stdout)).Encode(x); err != nil {
				return err
			}
			continue
		}
		algorithm := x.Algorithm
		if x.Selected {
			algorithm = "* " + algorithm
		}
		if x.Skipped != "" {
			fmt.Fprintf(table, "%s\t%s\t%s\tnot run: %s\t\t\t\n", x.Collective, bench.FormatSize(x.Bytes), algorithm, x.Skipped)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%d\t%d\t\n", x.Collective, bench.FormatSize(x.Bytes), algorithm,
			x.Time.Round(10*time.Nanosecond), x.Messages, x.Volume)
	}
	return nil
}

// parseSimulate reads the collectives and the flags. Both results are nil after --help.
func (c *command) parseSimulate(args []string) (*simulation, error) {
	o := &simulation{cfg: simulate.Config{Model: simulate.DefaultModel}}
	f := newFlags("bench simulate", "simulate collectives between thousands of ranks",
		"It runs the collectives in LIST, such as allreduce,alltoall, between simulated ranks, by each algorithm with messages, and "+
			"prints the time that a model computes. * marks the algorithm that mpi uses. Every rank has its buffers, and the results "+
			"are checked.")
	f.page.Forms = []string{"bench simulate LIST [flags]"}
	var sizes, compare cli.Ranges
	f.Var(cli.NumberList(&compare), "compare", "run the collectives also with these numbers of real ranks, a `LIST` such as 2,4,8, "+
		"on this machine, simulate that with the cost of messages measured here, and print how the times compare")
	o.transport = "tcp"
	f.Var(cli.WordList(&o.transport), "transport", "real ranks use the transports of the comma-separated `LIST`")
	f.DurationVar(&o.time, "time", 20*time.Millisecond, "measure each size for about this `DURATION` in a round")
	f.IntVar(&o.cfg.Cores, "cores", 0, "the ranks of a node share `N` cores (default: each has its own)")
	f.IntVar(&o.cfg.Ranks, "ranks", 64, "simulate `N` ranks")
	f.IntVar(&o.cfg.RanksPerNode, "ranks-per-node", 0, "with `N` ranks on each node (default: all on one)")
	f.Var(cli.NumberList(&sizes), "sizes", "simulate these sizes: a `LIST` such as 8,64K,1M (default 8)")
	f.BoolVar(&o.cfg.Selected, "used", false, "simulate only the algorithm that mpi uses")
	f.BoolVar(&o.json, "json", false, "print one JSON object per line")
	m := &o.cfg.Model
	f.DurationVar(&m.Network.Latency, "latency", m.Network.Latency, "a message between nodes takes this `DURATION`")
	f.DurationVar(&m.Network.Overhead, "overhead", m.Network.Overhead, "it takes this `DURATION` of sender and receiver")
	f.Float64Var(&m.Network.Bandwidth, "bandwidth", m.Network.Bandwidth, "the link of a node moves `BYTES` in a second")
	f.DurationVar(&m.Node.Latency, "node-latency", m.Node.Latency, "a message within a node takes this `DURATION`")
	f.DurationVar(&m.Node.Overhead, "node-overhead", m.Node.Overhead, "it takes this `DURATION` of sender and receiver")
	f.Float64Var(&m.Node.Bandwidth, "node-bandwidth", m.Node.Bandwidth, "a rank moves `BYTES` in a second within a node")
	f.Func("memory", "use at most about `BYTES` of memory (default 4G)", func(text string) error {
		n, err := cli.Size(text)
		o.cfg.Memory = int64(n)
		return err
	})
	o.names, args = leadingList(args)
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.names == nil {
		return nil, usagef("want the collectives to simulate, of %s", strings.Join(simulate.Names(), ", "))
	}
	if o.cfg.RanksPerNode == 0 {
		o.cfg.RanksPerNode = o.cfg.Ranks
	}
	if o.sizes = numbersIn(sizes); o.sizes == nil {
		o.sizes = []int{8}
	}
	if o.compare = sorted(compare, nil); o.compare != nil && (o.compare[0] < 2 || o.time <= 0) {
		return nil, usagef("--compare needs two ranks at least, and --time must be above 0")
	}
	return o, nil
}
