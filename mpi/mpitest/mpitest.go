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
//
// # Virtual time
//
// With [Options].Virtual the ranks run on a simulated cluster: the whole library runs, but each message takes the time of a
// model of package simulate, and Process.Wtime is the clock of the rank. So a program of thousands of ranks shows in one
// process how long it would communicate:
//
//	cluster := &mpitest.Cluster{RanksPerNode: 64}
//	err := mpitest.RanksWith(4096, mpitest.Options{Virtual: cluster}, func(p *mpi.Process) error {
//		start := p.Wtime()
//		...
//	})
//
// A message of any protocol costs its sender the overhead of the model, moves over links that the ranks of a node share, and
// costs its receiver the overhead when it handles the message. Reads of the memory of the sender cost a latency more. There is
// no shared memory between ranks of a node. What a rank does between messages takes no time; [Cluster.Compute] is the
// exception. A failure reaches other ranks through their connections, after what the rank has sent.
//
// A message is delivered when every rank waits in package mpi, so ranks must not wait for each other in other ways, or until
// Wtime has passed. Programs in which one goroutine of each rank communicates, and that do not depend on which of several
// messages is received first, have the same times in every run. An immediate collective also makes progress by a timer of this
// machine, so messages that a rank sends between its start and its end may have other times in another run.
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
	// this process (fabric/mem), unless Virtual is set.
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
	// Virtual, if not nil, gives the ranks virtual time; see the package comment. Calls are not checked then, and IBRUN_TRANSPORT
	// and a Rendezvous have no effect.
	Virtual *Cluster
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

// Ranks is Run outside of a test, for examples and programs: it returns the errors of the ranks.
func Ranks(n int, f func(p *mpi.Process) error) error {
	return errors.Join(run(program{}, n, Options{}, f)...)
}

// RanksWith is Ranks with options.
func RanksWith(n int, o Options, f func(p *mpi.Process) error) error {
	return errors.Join(run(program{}, n, o, f)...)
}

// logger is what a world needs of a test.
type logger interface {
	Name() string
	Attr(key, value string)
	Logf(format string, args ...any)
}

// program is the logger of a world without a test.
type program struct{}

func (program) Name() string                    { return os.Args[0] }
func (program) Attr(_, _ string)                {}
func (program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// world is one run.
type world struct {
	log         logger
	network     network
	cluster     *Cluster // nil unless time is virtual
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

func run(l logger, n int, o Options, f func(p *mpi.Process) error) []error {
	o.Config.Check = !o.Unchecked && o.Virtual == nil && os.Getenv("IBRUN_CHECK") != "0"
	w := &world{log: l, wrap: o.Wrap, config: o.Config, joinOnly: o.JoinOnly, psets: o.Psets, machine: o.Machine, skew: o.Skew}
	var s *member
	var err error
	if w.clock, err = clocksync.Local(); err != nil {
		return []error{err}
	}
	w.start = w.clock.Now()
	if n > 1 && o.Virtual == nil { // a world of one rank needs no other program
		if s, err = joinRendezvous(fmt.Sprintf("%s with %d ranks", l.Name(), n)); err != nil {
			return []error{err}
		}
	}
	nodes, err := w.connect(n, o, s)
	if err != nil {
		return []error{errors.Join(err, s.close())}
	}
	if n > 1 {
		l.Attr("world", fmt.Sprintf("%d ranks on %d nodes", n, nodes))
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
		if !s.hosts(rank) {
			continue
		}
		if w.watch != nil {
			w.watch.add(rank, nil)
		}
		ranks.Go(func() { w.rank(rank, n, f) })
	}
	ranks.Wait()
	if s != nil {
		if err := s.leave(w.failures); err != nil && len(w.failures) == 0 {
			w.failures = append(w.failures, err)
		}
	}
	return w.failures
}

// connect makes the network of n ranks, and returns the number of their nodes.
func (w *world) connect(n int, o Options, s *member) (nodes int, err error) {
	if o.Virtual != nil {
		v := virtualNetwork{o.Virtual}
		w.cluster, w.network, w.start = o.Virtual, v, 0
		nodes = w.numberNodes(n)
		return nodes, v.start(w.nodeNumbers)
	}
	if w.network, err = newNetwork(n, bootstrap.Thresholds(o.Config.Thresholds), s); err != nil {
		return 0, err
	}
	return w.numberNodes(n), nil
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
	if w.watch != nil {
		defer w.watch.remove(rank)
	}
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
	clock := w.clock
	if w.cluster != nil {
		clock.Now = func() int64 { return w.cluster.hub.Now(rank) }
	}
	if w.skew == nil {
		return clock
	}
	now, start := clock.Now, w.start
	ahead, rate := w.skew(rank)
	return clocksync.Source{ID: clocksync.Hash(fmt.Sprint(clock.ID, start, ahead, rate)), Now: func() int64 {
		t := now()
		return t + int64(ahead) + int64(rate*float64(t-start))
	}}
}

// poll returns how long a rank of a world of n polls before it sleeps; nil for the default. Ranks of one program that wait for
// each other wake each other quickly, and if they are many, each poll takes time from one that has something to do. Virtual time
// passes when all ranks sleep.
func (w *world) poll(n int) *time.Duration {
	if n <= maxPolling && w.cluster == nil {
		return nil
	}
	return new(time.Duration)
}

// maxPolling is the largest number of ranks of a world that poll.
const maxPolling = 64

func (w *world) process(rank, n int) *bootstrap.Process {
	nothing := func() error { return nil }
	return &bootstrap.Process{
		Rank: rank, Size: n, Oversubscribed: true, AppNum: -1, UniverseSize: -1, Clock: w.source(rank), Poll: w.poll(n),
		Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
			return w.wrap(w.network.transport(rank)).Open(ctx, c)
		},
		Address:   w.network.address,
		Psets:     w.listPsets,
		Nodes:     func() ([]int, error) { return w.nodeNumbers, nil },
		NodeName:  w.nodeName(rank),
		Hardware:  w.hardware(rank),
		Report:    func(text string) { w.log.Logf("rank %d: %s", rank, text) },
		Started:   nothing,
		Finalized: nothing,
		Abort: func(code int, why string) error {
			err := fmt.Errorf("%s, exit code %d", why, code)
			w.fail(rank, err, debug.Stack())
			return err
		},
	}
}
