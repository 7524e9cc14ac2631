package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/buildinfo"
	"github.com/ibrun/ibrun/internal/transports"
)

const performanceOp = "performance"

// performancePart is a part of what docs/performance.md has of a machine.
type performancePart struct {
	transport transports.Transport
	ops       string
	sizes     string
}

// performanceParts are measured with the default numbers of ranks.
var performanceParts = []performancePart{
	{transports.Shm, "latency,bw", "8,1K,8K,64K,256K,1M,4M"},
	{transports.Shm, "barrier,bcast,allreduce,allgather,alltoall,reduce_scatter,ibcast,iallreduce,ialltoall", "8,64K,1M"},
	{transports.Shm, "init", "0"},
	{transports.TCP, "latency,bw", "8,1K,8K,64K,256K,1M,4M"},
}

// performance measures this machine, and prints its section of docs/performance.md.
func (c *command) performance(ctx context.Context, args []string) error {
	var from string
	var sources programSources
	rounds, each := minRounds, defaultTime
	f := newFlags("bench "+performanceOp, "compare with other MPI implementations, and print a section of docs/performance.md",
		"It runs some comparisons of `ibrun bench versus`, which take about twenty minutes, and prints a section in Markdown: the "+
			"machine, the versions, and a table. If you send us the section of your machine, we add it to docs/performance.md.")
	peersFlag(f, &from)
	sourcesFlag(f, &sources)
	referenceFlag(f, &sources)
	f.IntVar(&rounds, "rounds", rounds, "take the median of `N` rounds (at least 7)")
	f.DurationVar(&each, "time", each, "measure each size for about this `DURATION` in each round")
	if err := f.parse(c, args); err != nil || f.helped {
		return err
	}
	if c.isRank() {
		return usagef("%s starts its own ranks: run it without a launcher", performanceOp)
	}
	if rounds < minRounds || each <= 0 {
		return usagef("--rounds must be at least %d, and --time more than 0", minRounds)
	}
	return c.printPerformance(ctx, performanceParts, from, sources, rounds, each)
}

// printPerformance measures some parts, and prints the section. The peers are in the folder from
// or, if that is empty, in the PATH. sources says where the programs are that are built.
func (c *command) printPerformance(ctx context.Context, parts []performancePart, from string, sources programSources,
	rounds int, each time.Duration,
) error {
	var all []*comparison
	for _, p := range parts {
		v := &comparison{transport: p.transport.String(), rounds: rounds, time: each, sources: sources,
			report: &report{w: io.Discard}}
		var err error
		if v.ops, err = opList(p.ops); err != nil {
			return err
		}
		if err := v.sizes.Set(p.sizes); err != nil {
			return err
		}
		all = append(all, v)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := c.findPeers(ctx, from, nil)
	if err != nil {
		return err
	}
	source, err := sources.findPeerProgram(ctx)
	if err != nil {
		return err
	}
	var lines []line
	var failed error
	for _, v := range all {
		failed = errors.Join(failed, c.buildAndCompare(ctx, v, found, source))
		if ctx.Err() != nil {
			return exitError{exitInterrupted}
		}
		for _, l := range v.report.lines {
			if l.PeerVersion == ibrunVersion() { // the reference program, which has no version of its own
				l.PeerVersion = ""
			}
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return failed
	}
	now := fmt.Sprintf("%s, ibrun %s%s", time.Now().UTC().Format(time.DateOnly), ibrunVersion(),
		withPrefix(", commit ", buildinfo.Commit()))
	_, err = io.WriteString(c.stdout, performanceSection(machine(), now, rounds, lines))
	return errors.Join(failed, err)
}

// performanceKey is what the points of a row have in common.
type performanceKey struct {
	op        string
	transport string
	ranks     int
	unit      bench.Unit
}

// performanceRow is a row of a table.
type performanceRow struct {
	performanceKey
	cells map[int]string // by size
}

// performanceSection returns a section of docs/performance.md. A cell of its table has our figure and, in brackets, its ratio to
// the better one of the peers.
func performanceSection(machine, when string, rounds int, lines []line) string {
	var rows []performanceRow
	var sizes []int
	var peers []string
	for len(lines) > 0 {
		l := lines[0]
		n := 0 // lines of the same point
		for n < len(lines) && lines[n].Op == l.Op && lines[n].Ranks == l.Ranks && lines[n].Size == l.Size &&
			lines[n].Transport == l.Transport {
			l.Ratio = min(l.Ratio, lines[n].Ratio)
			if name := strings.TrimSpace(lines[n].PeerName + " " + lines[n].PeerVersion); !slices.Contains(peers, name) {
				peers = append(peers, name)
			}
			n++
		}
		lines = lines[n:]
		key := performanceKey{l.Op, l.Transport, l.Ranks, l.Unit}
		if n := len(rows); n == 0 || rows[n-1].performanceKey != key {
			rows = append(rows, performanceRow{key, map[int]string{}})
		}
		rows[len(rows)-1].cells[l.Size] = fmt.Sprintf("%s (%.2f)", strings.TrimSpace(bench.FormatFigure(l.Ours)), l.Ratio)
		if !slices.Contains(sizes, l.Size) {
			sizes = append(sizes, l.Size)
		}
	}
	slices.Sort(sizes)
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s. Compared with %s. Medians of %d rounds.\n\n", machine, when, strings.Join(peers, ", "), rounds)
	b.WriteString("| operation | transport | ranks | unit |")
	for _, size := range sizes {
		if size == 0 {
			b.WriteString(" no data |")
		} else {
			fmt.Fprintf(&b, " %s |", strings.TrimSpace(bench.FormatSize(size)))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Repeat("|---", 4+len(sizes))+"|")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %s |", r.op, r.transport, r.ranks, r.unit)
		for _, size := range sizes {
			fmt.Fprintf(&b, " %s |", r.cells[size])
		}
		b.WriteString("\n")
	}
	return b.String()
}
