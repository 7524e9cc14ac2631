package benchcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/transports"
)

// job is one launch: an operation among so many ranks, at all sizes.
type job struct {
	op    bench.Op
	ranks int
	sizes []int
	time  time.Duration // of the measured turns of each size
}

// subject is who takes part in the race: an MPI implementation, ours or another, or a rival.
type subject struct {
	name        string
	version     string
	built       string                                               // how its program was built
	environ     []string                                             // of its launcher
	commandLine func(j job) []string                                 // the command line of a launch
	parseLine   func(line string) (size int, value float64, e error) // reads one line of what it prints

	// A rival measures in its own way, and not everything.
	measure func(ctx context.Context, j job) (map[int]float64, error)
	ops     []string // nil: all
	minSize int      // the smallest message that it has a figure for
}

// supportedPart returns the part of a job that a contender has figures for; it may have no sizes.
func (p *subject) supportedPart(j job) job {
	if p.ops != nil && (j.ranks != 2 || !slices.Contains(p.ops, j.op.Name)) {
		j.sizes = nil
	}
	j.sizes = slices.DeleteFunc(slices.Clone(j.sizes), func(size int) bool { return size < p.minSize })
	return j
}

const (
	launchTimeout = 2 * time.Minute // for one launch; a peer that hangs must not hang us
	shutdownGrace = 5 * time.Second // between asking a launcher to end and killing it
)

// run launches the job and returns the figures by size. For init that is the time of the command.
func (p *subject) run(ctx context.Context, j job) (map[int]float64, error) {
	if p.measure != nil {
		return p.measure(ctx, j)
	}
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	words := p.commandLine(j)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = p.environ
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = shutdownGrace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w after %v", ctx.Err(), took.Round(time.Second))
		}
		return nil, fmt.Errorf("%s: %w\n%s%s", quoteCommand(words), err, tail(stdout.Bytes()), tail(stderr.Bytes()))
	}
	if j.op.Name == opInit.Name {
		return map[int]float64{0: milliseconds(took)}, nil
	}
	points := map[int]float64{}
	for line := range strings.Lines(stdout.String()) {
		size, value, err := p.parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s: reading what it printed: %w", quoteCommand(words), err)
		}
		points[size] = value
	}
	for _, size := range j.sizes {
		if points[size] <= 0 {
			return nil, fmt.Errorf("%s: printed no figure for %s", quoteCommand(words), bench.FormatSize(size))
		}
	}
	return points, nil
}

// tail is the last part of what a program said.
func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// ibrunSubject is this program, over a transport.
func (c *command) ibrunSubject(transport string) *subject {
	return &subject{
		name:    "ibrun",
		version: buildVersion(),
		built:   "go build",
		environ: append(c.cleanEnv(), "IBRUN_TRANSPORT="+transport),
		commandLine: func(j job) []string {
			words := []string{c.self, "-n", strconv.Itoa(j.ranks), "--", c.self, "bench", j.op.Name}
			if j.op.Name == opInit.Name {
				return words
			}
			words = append(words, "--json", "--sizes", sizeList(j.sizes), "--time", j.time.String())
			if usesMedian(transport, j.op) {
				words = append(words, "--percentiles")
			}
			return words
		},
		parseLine: func(line string) (int, float64, error) {
			var r bench.Result
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return 0, 0, fmt.Errorf("%q: %w", line, err)
			}
			if r.Percentiles != nil {
				return r.Size, r.Percentiles.P50, nil
			}
			return r.Size, r.Value, nil
		},
	}
}

// usesMedian tells whether the figure is the median of single turns and not their mean, as perftest's is of a latency.
func usesMedian(transport string, op bench.Op) bool {
	return transport == transports.RDMA.String() && op.Unit == bench.Microseconds
}

// cleanEnv is the environment without the variables that stand for flags of ibrun: what is compared must not depend
// on them.
func (c *command) cleanEnv() []string {
	return slices.DeleteFunc(slices.Clone(c.env), func(v string) bool { return strings.HasPrefix(v, "IBRUN_") })
}

// sizeList writes sizes as a comma list of bytes.
func sizeList(sizes []int) string {
	words := make([]string, len(sizes))
	for i, size := range sizes {
		words[i] = strconv.Itoa(size)
	}
	return strings.Join(words, ",")
}
