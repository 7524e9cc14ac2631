package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/internal/transports"
)

const (
	minRounds = 7
	// versusRounds is the default number of rounds. Shared hosts move virtual processors, so with only 7 rounds the medians of two
	// subjects may come from times with different load.
	versusRounds = 15
	// opLimit bounds the time of one operation with all its rank counts: if the first rounds show that it would
	// take longer, the later rounds measure each size for a shorter time.
	opLimit  = 110 * time.Second
	maxRanks = 1024 // peers cannot start more on one machine
)

// comparison has the options and the subjects of `ibrun bench versus`.
type comparison struct {
	ops       []bench.Op
	ranks     []int
	sizes     cli.Ranges
	peers     []string
	from      string // the folder of the peers; empty: the PATH
	sources   programSources
	transport string
	rounds    int
	time      time.Duration
	subjects  []*subject // ibrun first
	report    *report
}

// versus compares ibrun with every peer.
func (c *command) versus(ctx context.Context, args []string) error {
	v, err := c.parseVersus(args)
	if err != nil || v == nil {
		return err
	}
	if c.isRank() {
		return usagef("versus starts its own ranks: run it without a launcher")
	}
	return untilInterrupted(ctx, func(ctx context.Context) error { return c.findAndCompare(ctx, v) })
}

// findAndCompare finds the peers, and measures.
func (c *command) findAndCompare(ctx context.Context, v *comparison) error {
	if v.transport == transports.RDMA.String() { // other MPI implementations do not start on every device
		return c.buildAndCompare(ctx, v, nil, "")
	}
	found, err := c.findPeers(ctx, v.from, v.peers)
	if err != nil {
		return err
	}
	source := ""
	if len(found) > 0 { // otherwise only reference implementations were named
		if source, err = v.sources.findPeerProgram(ctx); err != nil {
			return err
		}
	}
	return c.buildAndCompare(ctx, v, found, source)
}

// buildAndCompare builds the C program at source for each peer, and the reference program, in a
// temporary directory, and measures.
func (c *command) buildAndCompare(ctx context.Context, v *comparison, found []mpiCommands, source string) (err error) {
	dir, err := os.MkdirTemp("", "ibrun-bench-")
	if err != nil {
		return fmt.Errorf("creating a directory for the programs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	v.subjects = []*subject{c.ibrunSubject(v.transport)}
	for _, m := range found {
		p, err := m.build(ctx, source, dir, c.cleanEnv(), v.transport)
		if err != nil {
			return err
		}
		v.subjects = append(v.subjects, p)
	}
	references, err := c.findReferences(ctx, v.peers, v.transport, &programBuild{v.sources, dir})
	if err != nil {
		return err
	}
	v.subjects = append(v.subjects, references...)
	c.logSubjects(v)
	return c.compareAll(ctx, v)
}

// parseVersus reads the flags. Both results are nil after --help.
func (c *command) parseVersus(args []string) (*comparison, error) {
	v := &comparison{report: &report{w: c.stdout}}
	var ops, peers string
	var ranks cli.Ranges
	f := newFlags("bench versus", "compare with other MPI implementations",
		"It compares with the MPI implementations that are installed on this machine, alternating in one run.")
	f.Var(cli.WordList(&ops), "op", "compare these operations, a comma-separated `LIST` (default all)")
	f.Var(cli.NumberList(&ranks), "ranks",
		"with these numbers of ranks, a `LIST` (default 2 point-to-point, 2,4,8 for collectives, 32 for init)")
	sizes := cli.NumberList(&v.sizes)
	f.Var(sizes, "size", "at these sizes, a `LIST` such as 8,64K,1M, or ranges: 0-1K are the powers of 2\n"+
		"(default all up to 4M point-to-point; 8,64K,1M for collectives)")
	f.Var(sizes, "sizes", "the same as --size `LIST`")
	f.StringVar(&v.transport, "transport", transports.Shm.String(),
		"over this `TRANSPORT`: shm, tcp on the loopback device, or rdma, which\n"+
			"measures latency of 8 bytes (the median, as perftest does) and bw of 64K,1M by default,\n"+
			"against perftest")
	f.Var(cli.WordList(&peers), "peer", "with these, a comma-separated `LIST` of openmpi and mpich; over tcp also sockets\n"+
		"(two polled sockets) and iperf3; over rdma perftest (default those installed)")
	peersFlag(f, &v.from)
	sourcesFlag(f, &v.sources)
	referenceFlag(f, &v.sources)
	f.IntVar(&v.rounds, "rounds", versusRounds, "take the median of `N` rounds (at least 7)")
	f.DurationVar(&v.time, "time", defaultTime, "measure each size for about this `DURATION` in each round")
	f.BoolVar(&v.report.json, "json", false, "print one JSON object per line")
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if v.rounds < minRounds || v.time <= 0 {
		return nil, usagef("--rounds must be at least %d, and --time more than 0", minRounds)
	}
	var err error
	if v.transport == transports.RDMA.String() && ops == "" {
		ops = "latency,bw"
	}
	if v.ops, err = opList(ops); err != nil {
		return nil, err
	}
	if _, err = nameList("transport", v.transport, transports.SelectableNames()); err != nil {
		return nil, err
	}
	if v.from != "" && v.transport == transports.RDMA.String() {
		return nil, usagef("--peers %s: over rdma only perftest is compared", v.from)
	}
	if v.peers, err = nameList("peer", peers, peerNames(v.transport)); err != nil {
		return nil, err
	}
	for _, r := range ranks {
		if r.High > maxRanks {
			return nil, usagef("--ranks %s: at most %d ranks are compared", ranks.String(), maxRanks)
		}
		for n := r.Low; n <= r.High; n++ {
			v.ranks = append(v.ranks, n)
		}
	}
	return v, v.check()
}

// peersFlag adds the flag that says where the other MPI implementations are.
func peersFlag(f *flags, dir *string) {
	f.StringVar(dir, "peers", "", "with the MPI implementations in `DIR`/bin: mpicc.openmpi, mpirun.openmpi, mpicc.mpich and\n"+
		"mpirun.mpich, or mpicc and mpirun (default those in the PATH)")
}

// check returns an error if there is nothing to measure.
func (v *comparison) check() error {
	for _, op := range v.ops {
		if len(v.jobs(op)) > 0 {
			return nil
		}
	}
	return usagef("none of these operations can be measured with these --ranks and --size")
}

// jobs returns the launches of one operation, with the selected rank counts and sizes that it supports.
func (v *comparison) jobs(op bench.Op) []job {
	ranks, sizes := v.ranks, sizesFor(op, v.sizes)
	if ranks == nil {
		ranks = defaultRanks(op)
	}
	if v.sizes == nil {
		sizes = defaultSizes(op, v.transport)
	}
	var jobs []job
	for _, n := range ranks {
		if checkRanks(op, n) == nil && len(sizes) > 0 {
			jobs = append(jobs, job{op: op, ranks: n, sizes: sizes, time: v.time})
		}
	}
	return jobs
}

// defaultSizes returns the sizes that a comparison measures by default.
func defaultSizes(op bench.Op, transport string) []int {
	switch {
	case transport == transports.RDMA.String() && op.Unit == bench.Microseconds:
		return []int{8}
	case transport == transports.RDMA.String():
		return []int{64 << 10, 1 << 20}
	}
	if op.Name != opInit.Name && !op.Collective() {
		return op.Sizes()
	}
	return sizesFor(op, cli.Ranges{{Low: 8, High: 8}, {Low: 64 << 10, High: 64 << 10}, {Low: 1 << 20, High: 1 << 20}})
}

// compareAll measures all operations. After a failed job it continues with the next, and returns all errors.
func (c *command) compareAll(ctx context.Context, v *comparison) error {
	var failed error
	for _, op := range v.ops {
		jobs := v.jobs(op)
		if len(jobs) == 0 {
			c.logf("%s is left out: it has no point with these --ranks and --size", op.Name)
		}
		for _, j := range jobs {
			failed = errors.Join(failed, c.compareJob(ctx, v, j, opLimit/time.Duration(len(jobs))))
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	return errors.Join(failed, v.report.printSummary(c.stderr))
}

// compareJob runs all rounds of one job and prints its lines. A peer that fails is left out of the remaining rounds.
func (c *command) compareJob(ctx context.Context, v *comparison, j job, limit time.Duration) (failed error) {
	figures := make([]map[int][]float64, len(v.subjects)) // by subject and size; nil: does not take part, or has failed
	peers := -1
	for i, p := range v.subjects {
		if theirs := p.supportedPart(j); len(theirs.sizes) > 0 {
			c.logf("%s, %d ranks: %s", j.op.Name, j.ranks, quoteCommand(p.commandLine(theirs)))
			figures[i] = map[int][]float64{}
			peers++
		}
	}
	if peers == 0 {
		c.logf("%s, %d ranks, is left out: there is nothing to compare with", j.op.Name, j.ranks)
		return nil
	}
	start := time.Now()
	for round := range v.rounds {
		for turn := range v.subjects {
			i := (round + turn) % len(v.subjects) // so that the first one changes
			if figures[i] == nil {
				continue
			}
			points, err := v.subjects[i].run(ctx, v.subjects[i].supportedPart(j))
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %d ranks: %w", j.op.Name, j.ranks, err))
				figures[i] = nil
			}
			for size, value := range points {
				figures[i][size] = append(figures[i][size], value)
			}
			if figures[0] == nil || ctx.Err() != nil {
				return failed
			}
		}
		j.time = shortenedTime(j.time, time.Since(start), limit, round+1, v.rounds)
	}
	for _, size := range j.sizes {
		ours := samples.Median(figures[0][size])
		for i, peer := range v.subjects {
			if i == 0 || len(figures[i][size]) == 0 {
				continue
			}
			l := newLine(j.op.Name, j.ranks, size, j.op.Unit, ours, samples.Median(figures[i][size]), peer.name)
			l.PeerVersion, l.Transport = peer.version, v.transport
			if err := v.report.point(l); err != nil {
				return errors.Join(failed, err)
			}
		}
	}
	return failed
}

// shortenedTime returns the time per size for the remaining rounds, after done of all rounds have taken the time took. It is
// shorter than perSize if the limit would be exceeded.
func shortenedTime(perSize, took, limit time.Duration, done, all int) time.Duration {
	left := limit - took
	need := took / time.Duration(done) * time.Duration(all-done)
	if need <= left {
		return perSize
	}
	return max(time.Duration(float64(perSize)*float64(left)/float64(need)), time.Millisecond)
}

// peerNames returns the names of all peers for a transport.
func peerNames(transport string) (names []string) {
	if transport != transports.RDMA.String() {
		for _, m := range mpiImplementations() {
			names = append(names, m.name)
		}
	}
	for _, r := range references() {
		if r.transport == transport {
			names = append(names, r.name)
		}
	}
	return names
}
