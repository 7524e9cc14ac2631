package bench

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// ranksFor is how many ranks the tests use: more than a power of two where the operation allows it.
func ranksFor(op Op) []int {
	switch op.kind {
	case pair:
		return []int{2}
	case pairs:
		return []int{2, 4}
	}
	return []int{2, 3}
}

// run measures op in a world of goroutines and returns rank 0's results.
func run(t testing.TB, op Op, ranks int, cfg Config) (results []Result) {
	t.Helper()
	mpitest.RunWith(t, ranks, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		return Run(p.World(), op, cfg, func(r Result) error {
			if p.World().Rank() != 0 {
				return errors.New("a rank other than 0 was handed a result")
			}
			results = append(results, r)
			return nil
		})
	})
	return results
}

// TestOps runs every operation with data checked, percentiles taken and a fixed count of turns.
func TestOps(t *testing.T) {
	for _, op := range Ops() {
		for _, ranks := range ranksFor(op) {
			t.Run(fmt.Sprintf("%s/ranks=%d", op.Name, ranks), func(t *testing.T) {
				cfg := Config{Iterations: 7, Window: 3, Percentiles: true, Validate: true}
				for _, size := range []int{0, 4, 8, 20, 4096, 65536} {
					if op.Takes(size) {
						cfg.Sizes = append(cfg.Sizes, size)
					}
				}
				results := run(t, op, ranks, cfg)
				if len(results) != len(cfg.Sizes) {
					t.Fatalf("%d results for %d sizes", len(results), len(cfg.Sizes))
				}
				for i, r := range results {
					checkResult(t, op, ranks, cfg.Sizes[i], r)
				}
			})
		}
	}
}

func checkResult(t *testing.T, op Op, ranks, size int, r Result) {
	t.Helper()
	if r.Op != op.Name || r.Ranks != ranks || r.Size != size || r.Unit != op.Unit || r.Iterations != 7 {
		t.Errorf("result %+v is not that of %s, %d ranks, size %d", r, op.Name, ranks, size)
	}
	if r.Value <= 0 && size > 0 {
		t.Errorf("size %d: figure %v", size, r.Value)
	}
	if !r.Validated || r.Wrong != 0 {
		t.Errorf("size %d: %d elements wrong, validated %v", size, r.Wrong, r.Validated)
	}
	p := r.Percentiles
	if p == nil || op.Unit == Microseconds && !(p.P50 <= p.P90 && p.P90 <= p.P99) ||
		op.Unit != Microseconds && !(p.P50 >= p.P90 && p.P90 >= p.P99) {
		t.Errorf("size %d: percentiles %+v", size, p)
	}
	if op.Collective() && !(r.Fastest <= r.Value && r.Value <= r.Slowest) {
		t.Errorf("size %d: fastest %v, mean %v, slowest %v", size, r.Fastest, r.Value, r.Slowest)
	}
}

// TestValidateSeesDamage changes one received element, at one rank after the other, and expects it to be counted.
func TestValidateSeesDamage(t *testing.T) {
	for _, op := range Ops() {
		if op.kind == empty {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			const ranks = 2
			size := 24
			if op.Derived() {
				size = 3 * op.dataUnit
			}
			spoilt := 0
			mpitest.RunWith(t, ranks, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
				cfg, err := Config{Sizes: []int{size}, Window: 2}.withDefaults(op, ranks)
				if err != nil {
					return err
				}
				r := newRunner(p.World(), op, cfg)
				if err := r.resize(op, size); err != nil {
					return err
				}
				if n, err := r.validate(op); err != nil || n != 0 {
					return fmt.Errorf("sound data: %d wrong, %w", n, err)
				}
				switch {
				case op.Derived():
					r.message.spoil()
				case op.kind == reduction:
					r.recvFloats[0]++
				default:
					r.recv[0]++
				}
				n, err := sumOverRanks(p.World(), r.countWrong(op, validatedIterations-1))
				if p.World().Rank() == 0 {
					spoilt = n
				}
				return err
			})
			if spoilt == 0 {
				t.Error("spoilt data passed")
			}
		})
	}
}

// TestAdapt: without a fixed count the loop finds one.
func TestAdapt(t *testing.T) {
	op, err := Lookup("allreduce")
	if err != nil {
		t.Fatal(err)
	}
	quick := run(t, op, 2, Config{Sizes: []int{8}, Time: 200 * time.Microsecond})
	if n := quick[0].Iterations; n < 1 {
		t.Errorf("%d iterations", n)
	}
}

// TestLoopsAllocs: an iteration of the measuring loops does not allocate, for calls of package mpi that do not allocate.
func TestLoopsAllocs(t *testing.T) {
	for _, name := range []string{"latency", "bw", "bibw", "mbw_mr", "vector", "struct", "subarray", "barrier", "allreduce"} {
		op, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		const iterations = 100
		allocs := -1.0
		mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
			size := 8
			switch {
			case op.Derived():
				size = 2 * op.dataUnit
			case !op.Takes(size):
				size = 0
			}
			cfg, err := Config{Sizes: []int{size}, Window: 4}.withDefaults(op, 2)
			if err != nil {
				return err
			}
			r := newRunner(p.World(), op, cfg)
			if err := r.resize(op, size); err != nil {
				return err
			}
			iterate := func() {
				if _, e := op.loop(r, 0, 1); e != nil {
					err = e
				}
			}
			for range iterations { // connections, arenas, queues
				iterate()
			}
			if p.World().Rank() == 0 {
				allocs = alloctest.Count(iterations, iterate)
			} else {
				for range alloctest.Calls(iterations) {
					iterate()
				}
			}
			return err
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations in an iteration", name, allocs)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		op    string
		ranks int
		cfg   Config
		want  string
	}{
		{"latency", 3, Config{}, "between 2 ranks, not 3"},
		{"mbw_mr", 3, Config{}, "even number of ranks, not 3"},
		{"allreduce", 1, Config{}, "at least 2 ranks"},
		{"allreduce", 2, Config{Sizes: []int{6}}, "whole float32"},
		{"barrier", 2, Config{Sizes: []int{8}}, "only size is 0"},
		{"bw", 2, Config{Sizes: []int{0}}, "begin at 1"},
		{"latency", 2, Config{Sizes: []int{-1}}, "not negative"},
		{"vector", 2, Config{Sizes: []int{12}}, "units of 8 bytes"},
		{"struct", 2, Config{Sizes: []int{8}}, "units of 32 bytes"},
		{"latency", 2, Config{Window: -1}, "negative window"},
		{"alltoall", 2, Config{Sizes: []int{1 << 20}, Memory: 1 << 20}, "needs 4 MiB of buffers per rank, the limit is 1 MiB"},
	} {
		op, err := Lookup(c.op)
		if err != nil {
			t.Fatal(err)
		}
		err = op.CheckRanks(c.ranks)
		if err == nil {
			err = c.cfg.Check(op, c.ranks)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s among %d with %+v: %v; want %q", c.op, c.ranks, c.cfg, err, c.want)
		}
	}
	if _, err := Lookup("latencies"); err == nil {
		t.Error("Lookup found an operation that does not exist")
	}
	if err := Run(nil, Op{Name: "init"}, Config{}, nil); err == nil {
		t.Error("Run took an operation that is not of this package")
	}
}

// TestEachStopsRun: an error of the caller's function ends the measurement and is returned as it is.
func TestEachStopsRun(t *testing.T) {
	full := errors.New("disk full")
	mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		op, err := Lookup("barrier")
		if err != nil {
			return err
		}
		err = Run(p.World(), op, Config{Iterations: 1}, func(Result) error { return full })
		if p.World().Rank() == 0 && !errors.Is(err, full) {
			return fmt.Errorf("Run returned %v", err)
		}
		return nil
	})
}

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		op    string
		ranks int
		want  float64
	}{
		{"latency", 2, 5e4},  // 1 s, 10 turns: 50 ms each way
		{"bw", 2, 0.064},     // 640 messages of 100 bytes
		{"bibw", 2, 0.128},   // twice that
		{"mbw_mr", 4, 1280},  // 640 of each pair
		{"vector", 2, 5e4},   // as latency
		{"barrier", 8, 1e5},  // 100 ms
		{"alltoall", 8, 1e5}, // 100 ms
	} {
		op, err := Lookup(c.op)
		if err != nil {
			t.Fatal(err)
		}
		if got := op.figure(time.Second, 10, 100, c.ranks, 64); got != c.want {
			t.Errorf("%s: %v, want %v", c.op, got, c.want)
		}
	}
}

// TestPeerKnowsOps: the C program has the same operations, in the same order.
func TestPeerKnowsOps(t *testing.T) {
	source, err := os.ReadFile("testdata/peer.c")
	if err != nil {
		t.Fatal(err)
	}
	var there, here []string
	for _, m := range regexp.MustCompile(`(?m)^\t\{"(\w+)", `).FindAllStringSubmatch(string(source), -1) {
		there = append(there, m[1])
	}
	for _, op := range Ops() {
		here = append(here, op.Name)
	}
	if !slices.Equal(here, there) {
		t.Errorf("Go has %v, C has %v", here, there)
	}
}

func TestPercentile(t *testing.T) {
	var times []time.Duration
	for i := 1; i <= 200; i++ {
		times = append(times, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 1, 50: 100, 90: 180, 99: 198, 99.9: 200, 100: 200} {
		if got := Percentile(times, p); got != want {
			t.Errorf("p%v of 1..200 is %d, want %d", p, got, want)
		}
	}
	if got := Percentile(times[:1], 99); got != 1 {
		t.Errorf("p99 of one value is %d", got)
	}
}

func TestLadder(t *testing.T) {
	for _, c := range []struct {
		low, high int
		want      []int
	}{
		{0, 4, []int{0, 1, 2, 4}},
		{8, 8, []int{8}},
		{3, 20, []int{3, 4, 8, 16, 20}},
		{4, 32, []int{4, 8, 16, 32}},
		{0, 0, []int{0}},
		{2, 1, nil},
	} {
		if got := Ladder(c.low, c.high); !slices.Equal(got, c.want) {
			t.Errorf("Ladder(%d, %d) = %v, want %v", c.low, c.high, got, c.want)
		}
	}
}

func BenchmarkOps(b *testing.B) {
	for _, op := range Ops() {
		b.Run(op.Name, func(b *testing.B) {
			sizes := []int{8}
			switch {
			case op.Derived():
				sizes = []int{op.dataUnit}
			case !op.Takes(8):
				sizes = []int{0}
			}
			r := run(b, op, 2, Config{Sizes: sizes, Iterations: b.N, Warmup: 1})
			b.ReportMetric(r[0].Value, strings.ReplaceAll(string(op.Unit), "/", "-per-"))
		})
	}
}
