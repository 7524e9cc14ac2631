package monitor

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Monitor samples the ranks of this node while they run, and queries other nodes about theirs. It answers the commands ps, top
// and hang, and prints the hang view on a signal and on --timeout.
type Monitor struct {
	task    *protocol.Task
	mem     *perfmem.Memory
	streams console.Streams
	order   func(*protocol.Order) // sends an order to the agent of this node
	exited  []atomic.Bool         // by index in task.Ranks

	job   jobs.Job
	watch *inspect.StateTracker
	pids  atomic.Pointer[[]int] // of the ranks that were started, in order

	remotes []*RemoteNode // empty for a job on one node
	hosts   []string      // by rank; nil for a job on one node
	timeout time.Duration // remoteTimeout, or longer in tests

	ctx        context.Context // cancelled when the job ends
	stop       context.CancelFunc
	goroutines sync.WaitGroup
	viewing    atomic.Bool // a hang view is being made

	// reportProgress sends the progress of this node's ranks to the coordinator. Nil: this is the
	// monitor of the coordinator.
	reportProgress func(protocol.Progress)
	reporting      sync.Mutex // held from a sample until it is sent: no older one follows the final one

	mu             sync.Mutex
	remoteProgress map[int]protocol.Progress // by node number
	stackWaiters   map[int][]chan string     // receivers of the stacks, by rank
	lastRequest    uint64                    // ID of the last remoteRequest
	openRequests   map[uint64]*remoteRequest

	deadlocks chan string // see Deadlocks
}

// New returns a monitor of the ranks of t, which record in mem. Orders to the agent of this node are sent with send.
func New(t *protocol.Task, mem *perfmem.Memory, s console.Streams, send func(*protocol.Order)) *Monitor {
	m := &Monitor{task: t, mem: mem, streams: s, order: send, exited: make([]atomic.Bool, len(t.Ranks)),
		watch: inspect.NewStateTracker(), remoteProgress: map[int]protocol.Progress{}, stackWaiters: map[int][]chan string{},
		openRequests: map[uint64]*remoteRequest{}, deadlocks: make(chan string), timeout: remoteTimeout,
		job: jobs.Job{
			ID: t.JobID, Host: t.Host, Node: t.Node, Nodes: t.Nodes, PID: os.Getpid(),
			Size: t.Size, Here: len(t.Ranks), Began: time.Now()}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// SetPIDs sets the pids of the ranks that were started, in the order of the task's ranks.
func (m *Monitor) SetPIDs(pids []int) { m.pids.Store(&pids) }

// Start serves the commands ps, top and hang, and samples the ranks regularly. An error does not end the job. The caller must
// call end.
func (m *Monitor) Start(set *Settings) (end func()) {
	m.job.Command = set.Command
	server, err := inspect.Serve(m)
	if err != nil {
		m.streams.Warn("ibrun ps, top and hang cannot find this job", console.Attrs{Error: err.Error()})
	}
	terminal := console.IsTerminal(m.streams.Err) && !m.streams.JSON() // standard error may be closed while the loop runs
	m.goroutines.Go(func() { m.sampleLoop(terminal) })
	if set.DeadlockReport > 0 && m.reportProgress == nil { // the coordinator reports for all
		w := &deadlockWatch{m: m, after: set.DeadlockReport, every: min(set.DeadlockReport/4, sampleInterval),
			ends: set.EndDeadlocks, transit: set.Heartbeat}
		m.goroutines.Go(w.run)
	}
	return func() {
		m.stop()
		if err := server.Close(); err != nil {
			m.streams.Warn("the server for ibrun ps, top and hang cannot be closed", console.Attrs{Error: err.Error(), Text: err.Error()})
		}
		m.goroutines.Wait()
	}
}

// SocketPaths returns the sockets that Start may create, and their directories: see [inspect.SocketPaths].
func (m *Monitor) SocketPaths() (sockets, dirs []string) { return inspect.SocketPaths(m.job) }

// How often the ranks are sampled, and how often if a progress bar on a terminal is to be redrawn.
const (
	sampleInterval = time.Second
	barEvery       = 250 * time.Millisecond
)

// Job returns a description of the job. Job, Ranks, Snapshots and Stacks implement [inspect.Source].
func (m *Monitor) Job() jobs.Job { return m.job }

// Ranks returns all ranks of the job, ascending. It waits at most remoteTimeout for other nodes.
func (m *Monitor) Ranks(ctx context.Context) ([]jobs.Rank, error) {
	return m.allRanks(ctx, nil), nil
}

// Snapshots returns the snapshots of this node's ranks that have a record.
func (m *Monitor) Snapshots(context.Context) (all []*perf.Snapshot, err error) {
	for _, g := range m.Samples() {
		if g.Snapshot != nil {
			all = append(all, g.Snapshot)
		}
	}
	return all, nil
}

// ShowHangView prints what the ranks wait for, unless another call is doing so. The channel is closed when it has been printed.
func (m *Monitor) ShowHangView() <-chan struct{} {
	shown := make(chan struct{})
	if m.viewing.Swap(true) {
		close(shown)
		return shown
	}
	m.goroutines.Go(func() {
		defer close(shown)
		defer m.viewing.Store(false)
		v, err := inspect.NewView(m.ctx, m)
		if err != nil {
			return // the job has ended
		}
		var text strings.Builder
		if err := v.Text(&text); err == nil {
			m.streams.Info("the state of the ranks", console.Attrs{Text: strings.TrimSuffix(text.String(), "\n")})
		}
	})
	return shown
}
