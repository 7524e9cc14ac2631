package benchcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi"
)

// goroutines has the options of `ibrun bench goroutines`, which measures the round trips of many goroutines at once.
type goroutines struct {
	transports string
	rounds     int
	time       time.Duration
	report     *report
}

// goroutineCounts are the numbers of goroutines of a rank that send at the same time.
var goroutineCounts = [...]int{1, 8, 128}

const (
	goroutinesOp = "goroutines"
	// wordBytes is the length of the messages.
	wordBytes = 8
)

// The names of what the round trips of messages are compared with.
const (
	oneGoroutine     = "1 goroutine"
	rpcSharedClient  = "net/rpc"      // all goroutines use one client, as the package intends
	rpcClientForEach = "net/rpc each" // each goroutine has a client, and so a connection, of its own
)

func (c *command) goroutines(ctx context.Context, args []string) error {
	o, err := c.parseGoroutines(args)
	if err != nil || o == nil {
		return err
	}
	if c.isRank() {
		return c.measureGoroutines(ctx, o)
	}
	return c.launchPairs(ctx, o.transports, goroutinesOp, args)
}

// launchPairs starts this program as two ranks over each transport of a list, one after the other, with the same arguments.
func (c *command) launchPairs(ctx context.Context, list, op string, args []string) error {
	for _, transport := range listItems(list) {
		words := []string{"-n", strconv.Itoa(2), "--transport", transport, "--", c.self, "bench", op}
		cmd := exec.CommandContext(ctx, c.self, append(append(words, args...), "--transport", transport)...)
		cmd.Env, cmd.Stdout, cmd.Stderr = c.env, c.files.Out, c.files.Err // it may print after Ctrl-C has ended this process
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = shutdownGrace
		err := cmd.Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return exitError{cmp.Or(max(exit.ExitCode(), 0), exitFailed)}
		}
		if err != nil {
			return fmt.Errorf("starting two ranks: %w", err)
		}
	}
	return nil
}

// parseGoroutines reads the flags. Both results are nil after --help.
func (c *command) parseGoroutines(args []string) (*goroutines, error) {
	o := &goroutines{report: &report{w: c.stdout}}
	f := newFlags("bench goroutines", "measure many goroutines of a rank at once",
		"It measures round trips of 8 bytes between two ranks, with 1, 8 and 128 goroutines each, in trips/s; over TCP also with "+
			"net/rpc, alternating in one run.")
	f.BoolVar(&o.report.json, "json", false, "print one JSON object per line")
	o.transports = "tcp,shm"
	f.Var(cli.WordList(&o.transports), "transport", "measure over each transport of the comma-separated `LIST`")
	f.IntVar(&o.rounds, "rounds", 15, "take the median of `N` rounds")
	f.DurationVar(&o.time, "time", 20*time.Millisecond, "measure for about this `DURATION` each time")
	if err := f.parse(c, args); err != nil || f.helped {
		return nil, err
	}
	if o.rounds < 1 || o.time <= 0 {
		return nil, usagef("--rounds and --time must be above 0")
	}
	if _, err := transports.ParseList(o.transports); err != nil || o.transports == transports.Auto {
		return nil, usagef("--transport %s: want a list of transports", o.transports)
	}
	return o, nil
}

// contender is one way to make round trips.
type contender struct {
	name       string // empty: by messages
	goroutines int
	run        func(goroutines, trips int) error
	trips      int       // of a measurement, by all goroutines
	rates      []float64 // trips per second, one for each round
}

// measureGoroutines is the rank program: both ranks measure, rank 0 prints.
func (c *command) measureGoroutines(ctx context.Context, o *goroutines) (err error) {
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	if n := p.World().Size(); n != 2 {
		return fmt.Errorf("round trips are measured with 2 ranks, not %d", n)
	}
	byMessages := func(goroutines, trips int) error { return roundTrips(p.World(), goroutines, trips) }
	var contenders []*contender
	for _, n := range goroutineCounts {
		contenders = append(contenders, &contender{goroutines: n, run: byMessages})
	}
	if o.transports == transports.TCP.String() {
		pair, err := newRPCPair(p.World())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pair.close()) }()
		for _, n := range goroutineCounts {
			contenders = append(contenders, &contender{name: rpcSharedClient, goroutines: n, run: pair.shared})
			if n > 1 {
				contenders = append(contenders, &contender{name: rpcClientForEach, goroutines: n, run: pair.each})
			}
		}
	}
	for _, x := range contenders {
		if err := x.findTrips(p.World(), o.time); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		for i := range contenders { // none is always the first
			if err := contenders[(round+i)%len(contenders)].measure(p.World()); err != nil {
				return err
			}
		}
	}
	if p.World().Rank() == 0 {
		if err := o.printRates(contenders); err != nil {
			return err
		}
	}
	return p.Finalize()
}

// findTrips finds the number of trips that take this time, the same at both ranks.
func (x *contender) findTrips(c *mpi.Comm, interval time.Duration) error {
	for x.trips = x.goroutines; ; x.trips *= 2 {
		took, err := x.timed(c)
		if err != nil || took >= interval/2 {
			x.trips *= 2
			return err
		}
	}
}

// timed makes all round trips, and returns how long that has taken, by the clock of rank 0.
func (x *contender) timed(c *mpi.Comm) (time.Duration, error) {
	if err := c.Barrier(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := x.run(x.goroutines, x.trips); err != nil {
		return 0, err
	}
	took := []time.Duration{time.Since(began)}
	err := mpi.Bcast(c, took, 0)
	return took[0], err
}

func (x *contender) measure(c *mpi.Comm) error {
	took, err := x.timed(c)
	x.rates = append(x.rates, float64(x.trips)/took.Seconds())
	return err
}

// printRates prints the rate of messages with each number of goroutines, compared with one goroutine and with the other ways.
func (o *goroutines) printRates(contenders []*contender) error {
	for _, n := range goroutineCounts {
		ours := 0.0
		for _, x := range contenders {
			rate, name := samples.Median(x.rates), x.name
			switch {
			case name == "" && x.goroutines == n:
				ours, name, rate = rate, oneGoroutine, samples.Median(contenders[0].rates)
			case name == "" || x.goroutines != n:
				continue
			}
			if n == 1 && name == oneGoroutine && len(contenders) > len(goroutineCounts) {
				continue // it has a line for net/rpc
			}
			l := newLine(goroutinesOp, 2, wordBytes, bench.TripsPerSecond, ours, rate, name)
			l.Goroutines, l.Transport = n, o.transports
			if err := o.report.point(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// roundTrips makes round trips of one word. Goroutine i of rank 0 sends to goroutine i of rank 1, which answers.
func roundTrips(c *mpi.Comm, goroutines, trips int) error {
	return together(goroutines, trips, func(i, trips int) error {
		word := make([]byte, wordBytes)
		for range trips {
			if c.Rank() == 0 {
				if err := mpi.Send(c, word, 1, i); err != nil {
					return err
				}
				if _, err := mpi.Recv(c, word, 1, i); err != nil {
					return err
				}
				continue
			}
			if _, err := mpi.Recv(c, word, 0, i); err != nil {
				return err
			}
			if err := mpi.Send(c, word, 0, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs f in so many goroutines, each with its part of the trips, and returns when all have ended.
func together(goroutines, trips int, f func(i, trips int) error) error {
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() { errs[i] = f(i, trips/goroutines) })
	}
	all.Wait()
	return errors.Join(errs...)
}
