package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/explain"
	"github.com/ibrun/ibrun/perf"
)

const pathsOp = "paths"

// paths has the options of `ibrun bench paths`, which compares the protocol that a rank chooses with all others, and settings
// of the transports.
type paths struct {
	ops        []bench.Op
	buffers    string // a list of bufferKinds
	transports string
	sizes      cli.Ranges
	rounds     int
	time       time.Duration
	settle     time.Duration // for how long the ranks choose before they are measured
	settings   bool          // compare settings of the transports as well
	report     *report
}

// chosenByRank is the value of IBRUN_PROTOCOL, and of the hint ibrun_protocol, with which a rank chooses the protocol itself.
const chosenByRank = "auto"

// minPathRounds is the least number of rounds: the best protocol is found in one half of them and compared in the other.
const minPathRounds = 4

func (c *command) paths(ctx context.Context, args []string) error {
	o, err := c.parsePaths(args)
	if err != nil || o == nil {
		return err
	}
	if c.isRank() {
		return c.measurePaths(ctx, o)
	}
	return untilInterrupted(ctx, func(ctx context.Context) error { return c.comparePaths(ctx, o) })
}

// comparePaths compares the protocols of each transport, and then its settings.
func (c *command) comparePaths(ctx context.Context, o *paths) error {
	for _, transport := range listItems(o.transports) {
		for _, op := range o.ops {
			for _, buffers := range listItems(o.buffers) {
				// Each has a job of its own, in which the ranks have sent no messages of another kind.
				args := []string{"--op", op.Name, "--buffers", buffers, "--size", o.sizes.String(), "--rounds", strconv.Itoa(o.rounds),
					"--time", o.time.String(), "--settle", o.settle.String(), "--json=" + strconv.FormatBool(o.report.json)}
				if err := c.launchPairs(ctx, transport, pathsOp, args); err != nil {
					return err
				}
			}
		}
		if o.settings {
			if err := c.compareSettings(ctx, o, transport); err != nil {
				return err
			}
		}
	}
	return nil
}

// bufferKinds says for each value of --buffers whether the buffers are written before they are sent.
var bufferKinds = map[string]bool{"reused": false, "written": true}

// parsePaths reads the flags. Both results are nil after --help.
func (c *command) parsePaths(args []string) (*paths, error) {
	o := &paths{report: &report{w: c.stdout, baseline: "the best protocol at each size"}}
	f := newFlags("bench paths", "compare the protocol that is chosen with every other one, and settings",
		"For each size, two ranks measure each protocol by which a message can be sent, and the one that they choose themselves, "+
			"alternating in one run. The best protocol is found in the even rounds. The figures are those of the odd rounds, in which "+
			"both are compared, with the 95 % interval of the ratio in brackets. Each protocol is measured with messages that are sent "+
			"as they are, and with messages that are written before, in a job of its own for each. "+
			"With --settings it then measures jobs with one setting of the transport each, such as the size of a ring, and jobs "+
			"without them, alternately.")
	f.BoolVar(&o.report.json, "json", false, "print one JSON object per line")
	ops := "latency,bw"
	f.Var(cli.WordList(&ops), "op", "measure latency, bw, or both, a comma-separated `LIST`")
	o.buffers = "reused,written"
	f.Var(cli.WordList(&o.buffers), "buffers", "send buffers as they are (reused), after they were written (written), or both, "+
		"a comma-separated `LIST`")
	o.transports = "shm,tcp"
	f.Var(cli.WordList(&o.transports), "transport", "measure over each transport of the comma-separated `LIST`")
	sizes := cli.NumberList(&o.sizes)
	f.Var(sizes, "size", "at these sizes, a `LIST` such as 8,64K,1M, or ranges: 0-1K are the powers of 2 (default 1-16M)")
	f.Var(sizes, "sizes", "the same as --size `LIST`")
	f.IntVar(&o.rounds, "rounds", 20, "measure each protocol in `N` rounds (at least 4)")
	f.DurationVar(&o.time, "time", 5*time.Millisecond, "measure for about this `DURATION` each time")
	f.BoolVar(&o.settings, "settings", false, "compare settings of the transport as well, in some hundred short jobs")
	f.DurationVar(&o.settle, "settle", 500*time.Millisecond, "send for about this `DURATION` before, so that the ranks have chosen")
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.sizes == nil {
		o.sizes = cli.Ranges{{Low: 1, High: 16 << 20}}
	}
	var err error
	if o.ops, err = opList(ops); err != nil {
		return nil, err
	}
	return o, o.check(cli.Lookup(c.env))
}

// check returns an error for options, or settings of the environment, with which nothing can be compared.
func (o *paths) check(getenv func(string) string) error {
	if o.rounds < minPathRounds || o.time <= 0 || o.settle < 0 {
		return usagef("--rounds must be at least %d, --time more than 0, and --settle not negative", minPathRounds)
	}
	if _, err := transports.ParseList(o.transports); err != nil || o.transports == transports.Auto {
		return usagef("--transport %s: want a list of transports", o.transports)
	}
	if v := getenv("IBRUN_PROTOCOL"); v != "" && v != chosenByRank {
		return usagef("nothing is chosen with IBRUN_PROTOCOL=%s: unset it", v)
	}
	if getenv("IBRUN_PERF") == "off" {
		return usagef("with IBRUN_PERF=off nothing shows which protocol is chosen: unset it")
	}
	for _, buffers := range listItems(o.buffers) {
		if _, ok := bufferKinds[buffers]; !ok {
			return usagef("--buffers %s: want reused or written", o.buffers)
		}
	}
	for _, op := range o.ops {
		if op.Name != "latency" && op.Name != "bw" {
			return usagef("--op %s: want latency or bw", op.Name)
		}
		if sizes := sizesFor(op, o.sizes); len(sizes) == 0 || slices.Contains(sizes, 0) {
			return usagef("--size %s: want sizes from 1", o.sizes.String())
		}
	}
	return nil
}

// measurePaths is the rank program: both ranks measure, rank 0 prints.
func (c *command) measurePaths(ctx context.Context, o *paths) error {
	o.transports = cli.Lookup(c.env)("IBRUN_TRANSPORT") // what package mpi uses
	if names, err := transports.ParseList(o.transports); err != nil || len(names) != 1 {
		return usagef("as a rank of another launcher it measures the transport that IBRUN_TRANSPORT names: set it to one")
	}
	possible, err := explain.Protocols(o.transports, cli.Lookup(c.env))
	if err != nil {
		return err
	}
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	if n := p.World().Size(); n != 2 {
		return fmt.Errorf("protocols are measured with 2 ranks, not %d", n)
	}
	for _, op := range o.ops {
		for _, buffers := range listItems(o.buffers) {
			for _, size := range sizesFor(op, o.sizes) {
				names := slices.Insert(possible(size), 0, chosenByRank)
				if err := o.measureSize(p, op, bufferKinds[buffers], size, names); err != nil {
					return err // without Finalize: the job ends with this rank's exit code
				}
			}
		}
	}
	if p.World().Rank() == 0 {
		if err := o.report.printSummary(c.stderr); err != nil {
			return err
		}
	}
	return p.Finalize()
}

// measureSize measures one size with each value of the hint ibrun_protocol in names, of which chosenByRank is the first.
func (o *paths) measureSize(p *mpi.Process, op bench.Op, written bool, size int, names []string) error {
	used := usedProtocols{p: p}
	set := func(i int) error {
		name := names[i]
		if op.Name == "bw" && p.World().Rank() != 0 {
			name = chosenByRank // it only answers, each time in the same way
		}
		info := &mpi.Info{}
		return errors.Join(used.next(i == 0), info.Set("ibrun_protocol", name), p.World().SetInfo(info))
	}
	cfg := bench.Config{Sizes: []int{size}, Time: o.time, Written: written, Window: streamWindow(size)}
	if settle := cfg; o.settle > 0 {
		settle.Time = o.settle
		err := bench.Alternate(p.World(), op, settle, 1, 1, set, func(bench.Alternation) error { return nil })
		if err != nil {
			return err
		}
		used = usedProtocols{p: p}
	}
	return bench.Alternate(p.World(), op, cfg, o.rounds, len(names), set, func(a bench.Alternation) error {
		if err := used.next(false); err != nil {
			return err
		}
		l := compareChoice(op, 2, size, names, a.Rounds)
		l.Transport, l.Written, l.Chosen = o.transports, written, used.most()
		return o.report.point(l)
	})
}

// streamWindow returns how many messages of a size are in flight in bw: 32, because not more messages to a peer can be shared at
// a time, or fewer if they are long.
func streamWindow(size int) int { return min(32, max(4, (4<<20)/size)) }

// usedProtocols counts the bytes that a rank has sent by each protocol while it chose the protocol itself.
type usedProtocols struct {
	p        *mpi.Process
	counting bool
	before   map[perf.Protocol]uint64 // all bytes so far, at the last change of the hint
	bytes    [perf.Protocols]uint64
}

// next must be called before the hint changes, and at the end. choosing says that the rank chooses the protocol from now on.
func (u *usedProtocols) next(choosing bool) error {
	now := map[perf.Protocol]uint64{}
	s, err := u.p.Recorded()
	if err != nil {
		return err
	}
	for _, t := range s.Traffic {
		if t.Direction == perf.Out {
			now[t.Protocol] += t.Bytes
		}
	}
	if u.counting {
		for protocol, bytes := range now {
			u.bytes[protocol] += bytes - u.before[protocol]
		}
	}
	u.counting, u.before = choosing, now
	return nil
}

// most returns the protocol by which most bytes were sent.
func (u *usedProtocols) most() string {
	most := perf.Eager
	for p := range perf.Protocols {
		if u.bytes[p] > u.bytes[most] {
			most = p
		}
	}
	return most.String()
}

// compareChoice returns the line for one size. rounds has the figures of each protocol, algorithm or setting. The first one is
// what ranks choose, or have without a setting.
func compareChoice(op bench.Op, ranks, size int, names []string, rounds [][]float64) line {
	even, odd := make([][]float64, len(rounds)), make([][]float64, len(rounds))
	for i, values := range rounds {
		for round, v := range values {
			half := &even[i]
			if round%2 == 1 {
				half = &odd[i]
			}
			*half = append(*half, v)
		}
	}
	best := 1
	for i := range names {
		if i > 0 && ratio(op.Unit, samples.Median(even[i]), samples.Median(even[best])) > 1 {
			best = i
		}
	}
	l := newLine(op.Name, ranks, size, op.Unit, samples.Median(odd[0]), samples.Median(odd[best]), names[best])
	better, worse := odd[0], odd[best]
	if !op.Unit.MoreIsBetter() {
		better, worse = worse, better
	}
	mean, low, high := samples.Ratio(better, worse)
	l.Ratio, l.Low, l.High = roundDigits(mean), roundDigits(low), roundDigits(high)
	l.Protocols = map[string]float64{}
	for i, name := range names[1:] {
		l.Protocols[name] = roundDigits(samples.Median(odd[i+1]))
	}
	return l
}
