package benchcmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/mpi"
)

// hintMeasurement measures one hint in a use that it is meant for.
type hintMeasurement struct {
	hint  string // the name that is printed, or key=value
	on    []string
	off   []string
	op    string
	sizes []int
	// run runs so many iterations at both ranks, and reiterations the microseconds of one iteration at rank 0.
	run func(c *mpi.Comm, size, iterations int) (float64, error)
}

// hintMeasurements reiterations the measurements of all hints.
func hintMeasurements() []hintMeasurement {
	assert := func(op string, sizes []int, run func(*mpi.Comm, int, int) (float64, error), names ...string) hintMeasurement {
		t := hintMeasurement{op: op, sizes: sizes, run: run}
		for i, name := range names {
			if i > 0 {
				t.hint += "+"
			}
			t.hint += name
			t.on = append(t.on, "mpi_assert_"+name, "true")
			t.off = append(t.off, "mpi_assert_"+name, "false")
		}
		return t
	}
	small, large := []int{8}, []int{64 << 10, 256 << 10, 1 << 20}
	return []hintMeasurement{
		assert("unexpected", small, unexpectedMessages, "no_any_source"),
		assert("unexpected", small, unexpectedMessages, "no_any_tag"),
		assert("unexpected", small, unexpectedMessages, "no_any_source", "no_any_tag"),
		assert("posted_latency", large, postedReceives, "exact_length"),
		assert("urgent", []int{1 << 20}, overtaking, "allow_overtaking"),
		assert("allreduce", small, allreduces, "strict_persistent_collective_ordering"),
		{"memory_alloc_kinds", []string{"mpi_assert_memory_alloc_kinds", "system"},
			[]string{"mpi_assert_memory_alloc_kinds", "system,mpi"}, "posted_latency", small, postedReceives},
		{"ibrun_eager=1024", []string{"ibrun_eager", "1024"}, []string{"ibrun_eager", "auto"}, "unexpected",
			[]int{32 << 10}, unexpectedMessages},
	}
}

// batch is the number of messages that are unexpected, or in flight, at the same time.
const batch = 256

// unexpectedMessages receives messages that all arrived before their receives, in the order in which they were sent.
func unexpectedMessages(c *mpi.Comm, size, iterations int) (float64, error) {
	x, word := make([]byte, size), make([]byte, 1)
	const last = batch
	reqs := make([]mpi.Request, batch)
	began := time.Now()
	for range iterations {
		if c.Rank() == 1 {
			for tag := range last {
				var err error
				if reqs[tag], err = mpi.Isend(c, x, 0, tag); err != nil {
					return 0, err
				}
			}
			if err := mpi.Send(c, word, 0, last); err != nil {
				return 0, err
			}
			if err := mpi.Waitall(reqs, nil); err != nil {
				return 0, err
			}
			if _, err := mpi.Recv(c, word, 0, last); err != nil {
				return 0, err
			}
			continue
		}
		if _, err := mpi.Recv(c, word, 1, last); err != nil {
			return 0, err
		}
		for tag := range last {
			if _, err := mpi.Recv(c, x, 1, tag); err != nil {
				return 0, err
			}
		}
		if err := mpi.Send(c, word, 1, last); err != nil {
			return 0, err
		}
	}
	return microsecondsPer(began, iterations*batch), nil
}

// postedReceives sends a message back and forth. Each receive is posted before the other rank can send.
func postedReceives(c *mpi.Comm, size, iterations int) (float64, error) {
	out, in, other := make([]byte, size), make([]byte, size), 1-c.Rank()
	began := time.Now()
	r, err := mpi.Irecv(c, in, other, 1)
	for range iterations {
		if err != nil {
			return 0, err
		}
		if c.Rank() == 0 {
			if err := mpi.Send(c, out, other, 1); err != nil {
				return 0, err
			}
		}
		if _, err := r.Wait(); err != nil {
			return 0, err
		}
		r, err = mpi.Irecv(c, in, other, 1)
		if c.Rank() == 1 && err == nil {
			err = mpi.Send(c, out, other, 1)
		}
	}
	if err != nil {
		return 0, err
	}
	took := microsecondsPer(began, 2*iterations)
	// Complete the last receive.
	if err := mpi.Send(c, out, other, 1); err != nil {
		return 0, err
	}
	_, err = r.Wait()
	return took, err
}

// overtaking measures the time until a large message arrives that was sent after many small ones.
func overtaking(c *mpi.Comm, size, iterations int) (float64, error) {
	const small = 1 << 10
	x, rest, word := make([]byte, size), make([]byte, batch*small), make([]byte, 1)
	var took time.Duration
	for range iterations {
		if c.Rank() == 1 {
			if _, err := mpi.Recv(c, word, 0, 2); err != nil {
				return 0, err
			}
			reqs := make([]mpi.Request, 0, batch+1)
			for i := range batch {
				r, err := mpi.Isend(c, rest[i*small:][:small], 0, 0)
				if err != nil {
					return 0, err
				}
				reqs = append(reqs, r)
			}
			r, err := mpi.Isend(c, x, 0, 1)
			if err != nil {
				return 0, err
			}
			if err := mpi.Waitall(append(reqs, r), nil); err != nil {
				return 0, err
			}
			continue
		}
		began := time.Now()
		if err := mpi.Send(c, word, 1, 2); err != nil {
			return 0, err
		}
		if _, err := mpi.Recv(c, x, 1, 1); err != nil {
			return 0, err
		}
		took += time.Since(began)
		for i := range batch {
			if _, err := mpi.Recv(c, rest[i*small:][:small], 1, 0); err != nil {
				return 0, err
			}
		}
	}
	return float64(took.Nanoseconds()) / 1e3 / float64(iterations), nil
}

func allreduces(c *mpi.Comm, size, iterations int) (float64, error) {
	x, sum := make([]float64, size/8), make([]float64, size/8)
	began := time.Now()
	for range iterations {
		if err := mpi.Allreduce(c, sum, x, mpi.Sum); err != nil {
			return 0, err
		}
	}
	return microsecondsPer(began, iterations), nil
}

func microsecondsPer(began time.Time, n int) float64 {
	return float64(time.Since(began).Nanoseconds()) / 1e3 / float64(n)
}

// hints measures the gain of hints: without and with them alternately, in one run of two ranks.
func (c *command) hints(ctx context.Context, args []string) error {
	var asJSON bool
	rounds, interval := 0, time.Duration(0)
	f := newFlags("bench hints",
		"measure the gain of hints for communicators",
		"It measures each hint with it and without, in us, alternating in one run.")
	f.BoolVar(&asJSON, "json", false, "print one JSON object per line")
	f.IntVar(&rounds, "rounds", 15, "measure each `N` times with and without")
	f.DurationVar(&interval, "time", 5*time.Millisecond, "measure for about this `DURATION` each time")
	if err := f.parse(c, args); err != nil || f.helped {
		return err
	}
	if rounds < 1 || interval <= 0 {
		return usagef("--rounds and --time must be above 0")
	}
	if !c.isRank() {
		words := append([]string{"-n", strconv.Itoa(2), "--", c.self, "bench", "hints"}, args...)
		if code := c.ibrun(words); code != 0 {
			return exitError{code}
		}
		return nil
	}
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	if n := p.World().Size(); n != 2 {
		return fmt.Errorf("hints are measured with 2 ranks, not %d", n)
	}
	var r *report
	if p.World().Rank() == 0 {
		r = &report{w: c.stdout, json: asJSON, baseline: "the same without the hint"}
	}
	for _, t := range hintMeasurements() {
		for _, size := range t.sizes {
			if err := t.measure(p, r, size, rounds, interval); err != nil {
				return fmt.Errorf("%s of %d bytes with %s: %w", t.op, size, t.hint, err)
			}
		}
	}
	return p.Finalize()
}

// measure prints the best figures of one size: hints save little time, and disturbances only add time. r is nil at ranks that do
// not print.
func (t *hintMeasurement) measure(p *mpi.Process, r *report, size, rounds int, interval time.Duration) error {
	c, err := p.World().Dup()
	if err != nil {
		return err
	}
	iterations, err := t.findIterations(c, size, interval)
	if err != nil {
		return err
	}
	var with, without []float64
	for range rounds {
		for _, side := range []struct {
			info []string
			took *[]float64
		}{{t.off, &without}, {t.on, &with}} {
			if err := t.applyHints(c, side.info); err != nil {
				return err
			}
			if _, err := t.run(c, size, 1); err != nil { // warm-up after the change
				return err
			}
			took, err := t.run(c, size, iterations)
			if err != nil {
				return err
			}
			*side.took = append(*side.took, took)
		}
	}
	if r == nil {
		return c.Free()
	}
	l := newLine(t.op, 2, size, bench.Microseconds, slices.Min(with), slices.Min(without), "off")
	l.Hint = t.hint
	if err := r.point(l); err != nil {
		return err
	}
	return c.Free()
}

// applyHints sets hints and checks that they are in force.
func (t *hintMeasurement) applyHints(c *mpi.Comm, pairs []string) error {
	info := &mpi.Info{}
	for i := 0; i < len(pairs); i += 2 {
		if err := info.Set(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	if err := c.SetInfo(info); err != nil {
		return err
	}
	now, err := c.GetInfo()
	if err != nil {
		return err
	}
	for key, value := range info.All() {
		if v, _ := now.Get(key); v != value {
			return fmt.Errorf("%s is %q after it was set to %q", key, v, value)
		}
	}
	return nil
}

// findIterations reiterations the number of iterations that take this time, the same at both ranks.
func (t *hintMeasurement) findIterations(c *mpi.Comm, size int, interval time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		began := time.Now()
		if _, err := t.run(c, size, n); err != nil {
			return 0, err
		}
		took := []int64{time.Since(began).Nanoseconds()}
		if err := mpi.Bcast(c, took, 0); err != nil || took[0] >= interval.Nanoseconds() || n >= 1<<20 {
			return n, err
		}
	}
}
