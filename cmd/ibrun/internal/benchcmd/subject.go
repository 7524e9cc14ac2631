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

// job is one launch: an operation with a number of ranks, at all sizes.
type job struct {
	op    bench.Op
	ranks int
	sizes []int
	time  time.Duration // of the measured turns of each size
	// Only ibrun can do this:
	window  int  // messages in flight in bw; 0 for the default
	written bool // messages are written before they are sent
	means   bool // figures are means, also where others are medians
}

// subject is one of the programs that are compared: ibrun, another MPI implementation, or a reference implementation.
type subject struct {
	name        string
	version     string
	built       string                                               // how its program was built
	environ     []string                                             // of its launcher
	commandLine func(j job) []string                                 // the command line of a launch
	parseLine   func(line string) (size int, value float64, e error) // reads one line of what it prints

	// A reference implementation has its own measuring function and supports only some operations and sizes.
	measure func(ctx context.Context, j job) (map[int]float64, error)
	ops     []string // the supported operations; nil: all
	minSize int      // the smallest supported message size
}

// supportedPart returns the part of a job that the subject supports. It may have no sizes.
func (p *subject) supportedPart(j job) job {
	if p.ops != nil && (j.ranks != 2 || !slices.Contains(p.ops, j.op.Name)) {
		j.sizes = nil
	}
	j.sizes = slices.DeleteFunc(slices.Clone(j.sizes), func(size int) bool { return size < p.minSize })
	return j
}

const (
	launchTimeout = 2 * time.Minute // for one launch, in case a peer hangs, besides the time of measurements
	shutdownGrace = 5 * time.Second // between SIGTERM to a launcher and SIGKILL
)

// run launches the job and returns the figures by size. For init that is the time of the command.
func (p *subject) run(ctx context.Context, j job) (map[int]float64, error) {
	if p.measure != nil {
		return p.measure(ctx, j)
	}
	// A warm-up may take 40 times as long as a measurement.
	ctx, cancel := context.WithTimeout(ctx, launchTimeout+time.Duration(50*len(j.sizes))*j.time)
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
			return nil, fmt.Errorf("%s: parsing its output: %w", quoteCommand(words), err)
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

// tail returns the last part of the output of a program.
func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// ibrunSubject returns this program as a subject, over a transport, with more flags of ibrun.
func (c *command) ibrunSubject(transport string, flags ...string) *subject {
	return &subject{
		name:    "ibrun",
		version: ibrunVersion(),
		built:   "go build",
		environ: append(c.cleanEnv(), "IBRUN_TRANSPORT="+transport),
		commandLine: func(j job) []string {
			words := slices.Concat([]string{c.self}, flags, []string{"-n", strconv.Itoa(j.ranks), "--", c.self, "bench", j.op.Name})
			if j.op.Name == opInit.Name {
				return words
			}
			words = append(words, "--json", "--sizes", sizeList(j.sizes), "--time", j.time.String())
			if j.window > 0 {
				words = append(words, "--window", strconv.Itoa(j.window))
			}
			if j.written {
				words = append(words, "--written")
			}
			if j.op.Derived() {
				words = append(words, "--validate") // as the C program does
			}
			if usesMedian(transport, j.op) && !j.means {
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

// usesMedian reports whether the figure is the median of single iterations and not their mean, as perftest reports latencies.
func usesMedian(transport string, op bench.Op) bool {
	return transport == transports.RDMA.String() && op.Unit == bench.Microseconds
}

// cleanEnv returns the environment without the variables of ibrun, because the comparison must not depend on them.
func (c *command) cleanEnv() []string {
	return slices.DeleteFunc(slices.Clone(c.env), func(v string) bool { return strings.HasPrefix(v, "IBRUN_") })
}

// sizeList formats sizes as a comma-separated list of bytes.
func sizeList(sizes []int) string {
	words := make([]string, len(sizes))
	for i, size := range sizes {
		words[i] = strconv.Itoa(size)
	}
	return strings.Join(words, ",")
}
