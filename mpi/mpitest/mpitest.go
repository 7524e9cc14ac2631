// Package mpitest runs MPI programs as goroutines of one process, so that they can be tested with go test alone: no
// launcher, no processes, and the race detector sees everything.
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
// The ranks are joined by memory of the process. With IBRUN_TRANSPORT in the environment, such as tcp or shm,tcp, the same tests
// run over these transports, as if every two ranks were on a node of their own; a failure then reaches other ranks only by the
// connections that they have. [Table] spreads them over several programs.
package mpitest

import (
	"context"
	"errors"
	"fmt"
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

// Options changes how a world runs. The zero value is what Run uses.
type Options struct {
	// Wrap, if not nil, wraps the transport that connects the ranks, which is memory of this process (fabric/mem);
	// hook.Wrap does.
	Wrap func(fabric.Transport) fabric.Transport
	// Machine, if not nil, tells on which machine a rank is and to which PUs it is bound, in place of what is true. It is asked
	// whenever the rank asks, so that bindings may change, by any goroutine. Ranks whose machines had the same name at the
	// start are on one node.
	Machine func(rank int) Machine
	// Skew, if not nil, gives every rank a clock of its own, as on machines of their own: one that is ahead of that of
	// this machine, and gets further ahead by some nanoseconds in each. Ranks with the same are on one machine.
	Skew func(rank int) (ahead time.Duration, rate float64)
	// Config is the Config of every rank's Init or Join.
	Config mpi.Config
	// JoinOnly starts the ranks by Join, without the World Model.
	JoinOnly bool
	// Psets, if not nil, tells the process sets of the world, as ibrun --pset defines them. It is asked whenever the launcher
	// would be, by any goroutine.
	Psets func() []Pset
}

// Pset is a process set.
type Pset struct {
	Name  string
	Ranks []int
}

// Machine is one that a rank is told it runs on.
type Machine struct {
	// Name is that of the node.
	Name string
	// Top is what hw.Read made of it, such as of a tree from package hwtest.
	Top *hw.Topology
	// PUs are those that the rank is bound to.
	PUs []int
}

// Run runs f as each of n ranks and returns when all have ended. If f returns an error, panics, calls Goexit (as
// t.FailNow does) or Abort at one rank, the world fails: calls that wait at other ranks return mpi.ErrProcFailed,
// and the test fails with that rank's number and stack. A rank that has not finalized when f returns nil is
// finalized, and leaves the job. The log of the test gets an attribute: how many ranks there were, on how many nodes.
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
	machine     func(rank int) Machine // nil for this one
	nodeNumbers []int                  // by rank
	joinOnly    bool
	psets       func() []Pset                           // nil for none
	skew        func(rank int) (time.Duration, float64) // nil for the clock of this one
	clock       clocksync.Source
	start       int64 // by that clock

	mu       sync.Mutex
	failures []error // of ranks, without those that only follow from another's
}

func run(t testing.TB, n int, o Options, f func(p *mpi.Process) error) []error {
	w := &world{t: t, wrap: o.Wrap, config: o.Config, joinOnly: o.JoinOnly, psets: o.Psets, machine: o.Machine, skew: o.Skew}
	var s *member
	var err error
	if w.clock, err = clocksync.Local(); err != nil {
		return []error{err}
	}
	w.start = w.clock.Now()
	if n > 1 { // one alone needs nobody
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

// errLeft is why a rank failed that neither returned nor panicked.
var errLeft = errors.New("the rank's goroutine ended by runtime.Goexit, as t.FailNow does")

// rank runs one rank and turns whatever ends it badly into a failure of the world.
func (w *world) rank(rank, n int, f func(p *mpi.Process) error) {
	err := errLeft
	var stack []byte
	defer func() {
		if v := recover(); v != nil {
			err, stack = fmt.Errorf("panic: %v", v), debug.Stack()
		} else if err == errLeft {
			stack = debug.Stack() // Goexit runs this on top of the frames that it leaves
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
	result := f(p)
	if result == nil && p.World() != nil {
		result = p.Finalize()
	}
	if result == nil {
		result = p.Leave()
	}
	err = result
}

// fail ends the world because of a rank. That a rank noticed another's failure is no failure of its own.
func (w *world) fail(rank int, err error, stack []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) == 0 || !errors.Is(err, mpi.ErrProcFailed) {
		text := fmt.Errorf("rank %d: %w", rank, err)
		if stack != nil {
			text = fmt.Errorf("%w\n%s", text, stack)
		}
		w.failures = append(w.failures, text)
	}
	w.network.fail(rank, err)
}

// numberNodes numbers the nodes of the ranks in the order of their first rank, and returns how many there are.
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

// nodeName is that of a rank's node.
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

// source is the clock of a rank.
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
