// Package mpitest runs the ranks of an MPI program as goroutines of one process, so that it can be tested with go test
// alone: without a launcher, and with the race detector.
//
//	func TestSum(t *testing.T) {
//		mpitest.Run(t, 4, func(p *mpi.Process) error {
//			x := []int{p.World().Rank()}
//			if err := mpi.Allreduce(p.World(), x, x, mpi.Sum); err != nil {
//				return err
//			}
//			if x[0] != 6 {
//				return fmt.Errorf("sum is %d", x[0])
//			}
//			return nil
//		})
//	}
//
// Calls are checked as by ibrun --check: ranks that call different collectives, or messages of another type than their receives
// have, are errors that name both ranks and both lines. If every rank waits for another for 10 s, the test fails with what each
// waits for.
//
// The ranks communicate through memory of the process. If IBRUN_TRANSPORT is set in the environment, for instance to tcp or
// shm,tcp, the same tests use these transports, as if every two ranks were on a node of their own. A failure then reaches
// other ranks only through their connections. [Rendezvous] distributes the ranks over several programs.
package mpitest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
)

// Options changes how a world runs. The zero value is the default of Run.
type Options struct {
	// Wrap, if not nil, wraps the transport that connects the ranks, for instance with hook.Wrap. That transport is memory of
	// this process (fabric/mem).
	Wrap func(fabric.Transport) fabric.Transport
	// Machine, if not nil, returns a simulated machine for each rank, and the PUs to which the rank is bound. It is called
	// whenever the rank reads its machine, so bindings may change, and from any goroutine. Ranks whose machines had the same
	// name at the start are on one node.
	Machine func(rank int) Machine
	// Skew, if not nil, gives every rank a simulated clock: it is ahead of this machine's clock, and gains rate nanoseconds
	// per nanosecond. Ranks with the same values read the same clock.
	Skew func(rank int) (ahead time.Duration, rate float64)
	// Config is the Config of every rank's Init or Join. Its field Check is ignored: calls are checked unless Unchecked is set.
	Config mpi.Config
	// Unchecked makes the ranks communicate as they do without ibrun --check, for example to measure. IBRUN_CHECK=0 in the
	// environment does so for all worlds.
	Unchecked bool
	// Deadlock is how long every rank has to wait for another before the world fails, with what each rank waits for; 0 means 10 s,
	// less than 0 never. Ranks in several programs ([Rendezvous]) are not watched.
	Deadlock time.Duration
	// JoinOnly starts the ranks with Join, without the World Model.
	JoinOnly bool
	// Psets, if not nil, returns the process sets of the world, like those of ibrun --pset. It is called whenever a process
	// would ask the launcher, and from any goroutine.
	Psets func() []Pset
}

// Pset is a process set.
type Pset struct {
	Name  string
	Ranks []int
}

// Machine is a simulated machine of a rank.
type Machine struct {
	// Name is the name of the node.
	Name string
	// Top is the topology from hw.Read, for instance of a tree from package hwtest.
	Top *hw.Topology
	// PUs are the PUs to which the rank is bound.
	PUs []int
}

// Run runs f as each of n ranks and returns when all have ended. If f returns an error, panics, calls Goexit (as
// t.FailNow does) or Abort at one rank, the world fails: pending calls of other ranks return mpi.ErrProcFailed, and
// the test fails with that rank's number and stack. If f returns nil at a rank that has not called Finalize, Run
// calls Finalize and Leave for it. The log of the test gets an attribute with the number of ranks and nodes.
func Run(t testing.TB, n int, f func(p *mpi.Process) error) {
	t.Helper()
	RunWith(t, n, Options{}, f)
}

// RunWith is Run with options.
func RunWith(t testing.TB, n int, o Options, f func(p *mpi.Process) error) {
	t.Helper()
	for _, failure := range run(t, n, o, f) {
		t.Error(failure)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// world is one run.
type world struct {
	t           testing.TB
	network     network
	wrap        func(fabric.Transport) fabric.Transport
	config      mpi.Config
	machine     func(rank int) Machine // nil for this machine
	nodeNumbers []int                  // by rank
	joinOnly    bool
	psets       func() []Pset                           // nil for none
	skew        func(rank int) (time.Duration, float64) // nil for the clock of this one
	clock       clocksync.Source
	start       int64 // time of the start by clock

	mu       sync.Mutex
	failures []error // of ranks, except those that result from another rank's failure
	failed   bool    // failAll was called: ranks that fail from now on are not reported

	watch *deadlockWatch // nil if the world is not watched
}

func run(t testing.TB, n int, o Options, f func(p *mpi.Process) error) []error {
	o.Config.Check = !o.Unchecked && os.Getenv("IBRUN_CHECK") != "0"
	w := &world{t: t, wrap: o.Wrap, config: o.Config, joinOnly: o.JoinOnly, psets: o.Psets, machine: o.Machine, skew: o.Skew}
	var s *member
	var err error
	if w.clock, err = clocksync.Local(); err != nil {
		return []error{err}
	}
	w.start = w.clock.Now()
	if n > 1 { // a world of one rank needs no other program
		if s, err = joinRendezvous(fmt.Sprintf("%s with %d ranks", t.Name(), n)); err != nil {
			return []error{err}
		}
	}
	if w.network, err = newNetwork(n, bootstrap.Thresholds(o.Config.Thresholds), s); err != nil {
		return []error{errors.Join(err, s.close())}
	}
	if nodes := w.numberNodes(n); n > 1 {
		t.Attr("world", fmt.Sprintf("%d ranks on %d nodes", n, nodes))
	}
	if w.wrap == nil {
		w.wrap = func(t fabric.Transport) fabric.Transport { return t }
	}
	done := make(chan struct{})
	if s == nil && o.Deadlock >= 0 {
		w.watch = &deadlockWatch{world: w, after: cmp.Or(o.Deadlock, defaultDeadlock), running: map[int]*mpi.Process{}}
		var watching sync.WaitGroup
		watching.Go(func() { w.watch.run(done) })
		defer watching.Wait()
	}
	defer close(done)
	var ranks sync.WaitGroup
	for rank := range n {
		if s.hosts(rank) {
			ranks.Go(func() { w.rank(rank, n, f) })
		}
	}
	ranks.Wait()
	if s != nil {
		if err := s.leave(w.failures); err != nil && len(w.failures) == 0 {
			w.failures = append(w.failures, err)
		}
	}
	return w.failures
}

// errLeft is the error of a rank that neither returned nor panicked.
var errLeft = errors.New("the rank's goroutine ended by runtime.Goexit, as t.FailNow does")

// rank runs one rank, and reports its error, panic or Goexit as a failure of the world.
func (w *world) rank(rank, n int, f func(p *mpi.Process) error) {
	err := errLeft
	var stack []byte
	defer func() {
		if v := recover(); v != nil {
			err, stack = fmt.Errorf("panic: %v", v), debug.Stack()
		} else if err == errLeft {
			stack = debug.Stack() // Goexit runs deferred functions on top of the stack that it ends
		}
		if err != nil {
			w.fail(rank, err, stack)
		}
	}()
	config := w.config
	start := mpi.Init
	if w.joinOnly {
		start = mpi.Join
	}
	p, initErr := start(bootstrap.WithProcess(context.Background(), w.process(rank, n)), &config)
	if initErr != nil {
		err = initErr
		return
	}
	if w.watch != nil {
		w.watch.add(rank, p)
		defer w.watch.remove(rank)
	}
	result := f(p)
	if result == nil && p.World() != nil && !p.Finalized() {
		result = p.Finalize()
	}
	if result == nil {
		result = p.Leave()
	}
	err = result
}

// fail ends the world because of a rank's error. A rank that only noticed another rank's failure is not reported.
func (w *world) fail(rank int, err error, stack []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.failed && (len(w.failures) == 0 || !errors.Is(err, mpi.ErrProcFailed)) {
		text := fmt.Errorf("rank %d: %w", rank, err)
		if stack != nil {
			text = fmt.Errorf("%w\n%s", text, stack)
		}
		w.failures = append(w.failures, text)
	}
	w.network.fail(rank, err)
}

// failAll records a failure of the world as a whole.
func (w *world) failAll(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
	w.failures = append(w.failures, err)
}

// numberNodes numbers the nodes of the ranks in the order of their first rank, and returns their number.
func (w *world) numberNodes(n int) int {
	numbers := map[string]int{}
	for rank := range n {
		name := w.nodeName(rank)
		if _, known := numbers[name]; !known {
			numbers[name] = len(numbers)
		}
		w.nodeNumbers = append(w.nodeNumbers, numbers[name])
	}
	return len(numbers)
}

// nodeName returns the name of a rank's node.
func (w *world) nodeName(rank int) string {
	if w.machine != nil {
		return w.machine(rank).Name
	}
	return w.network.nodeName(rank)
}

func (w *world) listPsets() ([]bootstrap.Pset, error) {
	if w.psets == nil {
		return nil, nil
	}
	var sets []bootstrap.Pset
	for _, s := range w.psets() {
		sets = append(sets, bootstrap.Pset(s))
	}
	return sets, nil
}

func (w *world) hardware(rank int) func() (*hw.Topology, []int, error) {
	if w.machine == nil {
		return bootstrap.Machine
	}
	return func() (*hw.Topology, []int, error) {
		m := w.machine(rank)
		return m.Top, m.PUs, nil
	}
}

// source returns the clock of a rank.
func (w *world) source(rank int) clocksync.Source {
	if w.skew == nil {
		return w.clock
	}
	now, start := w.clock.Now, w.start
	ahead, rate := w.skew(rank)
	return clocksync.Source{ID: clocksync.Hash(fmt.Sprint(w.clock.ID, start, ahead, rate)), Now: func() int64 {
		t := now()
		return t + int64(ahead) + int64(rate*float64(t-start))
	}}
}

func (w *world) process(rank, n int) *bootstrap.Process {
	nothing := func() error { return nil }
	return &bootstrap.Process{
		Rank: rank, Size: n, Oversubscribed: true, AppNum: -1, UniverseSize: -1, Clock: w.source(rank),
		Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
			return w.wrap(w.network.transport(rank)).Open(ctx, c)
		},
		Address:   w.network.address,
		Psets:     w.listPsets,
		Nodes:     func() ([]int, error) { return w.nodeNumbers, nil },
		NodeName:  w.nodeName(rank),
		Hardware:  w.hardware(rank),
		Report:    func(text string) { w.t.Logf("rank %d: %s", rank, text) },
		Started:   nothing,
		Finalized: nothing,
		Abort: func(code int, why string) error {
			err := fmt.Errorf("%s, exit code %d", why, code)
			w.fail(rank, err, debug.Stack())
			return err
		},
	}
}
