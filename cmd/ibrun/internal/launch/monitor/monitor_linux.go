package monitor

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// Monitor is who looks at the ranks of this node while they run, and asks other nodes about theirs, for those who want to know:
// the commands, signals, the end by --timeout.
type Monitor struct {
	task    *protocol.Task
	mem     *perfmem.Memory
	streams console.Streams
	order   func(*protocol.Order) // sends an order to this node's agent
	exited  []atomic.Bool         // by index in task.Ranks

	job   inspect.Job
	watch *inspect.Watch
	pids  atomic.Pointer[[]int] // of the ranks that were started

	remotes []*RemoteNode // none for a job on one node
	hosts   []string      // by rank; nil for such

	ctx        context.Context // ends before the job is over
	stop       context.CancelFunc
	goroutines sync.WaitGroup
	viewing    atomic.Bool // somebody makes a view already

	reportProgress func(protocol.Progress) // tells node 0 how far the ranks here are; nil on node 0

	mu             sync.Mutex
	remoteProgress map[int]protocol.Progress // of other nodes, by node
	stackWaiters   map[int][]chan string     // who waits for the stacks of a rank
	lastRequest    uint64                    // inquiry
	openRequests   map[uint64]*remoteRequest
}

// New returns a monitor of the ranks of t, which record in mem. It sends orders to the agent of this node with send.
func New(t *protocol.Task, mem *perfmem.Memory, s console.Streams, send func(*protocol.Order)) *Monitor {
	m := &Monitor{task: t, mem: mem, streams: s, order: send, exited: make([]atomic.Bool, len(t.Ranks)),
		watch: inspect.NewWatch(), remoteProgress: map[int]protocol.Progress{}, stackWaiters: map[int][]chan string{},
		openRequests: map[uint64]*remoteRequest{},
		job: inspect.Job{
			ID: t.JobID, Host: t.Host, Node: t.Node, Nodes: t.Nodes, PID: os.Getpid(),
			Size: t.Size, Here: len(t.Ranks), Began: time.Now()}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// SetPIDs sets the processes of the ranks that were started, in the order of task.Ranks.
func (m *Monitor) SetPIDs(pids []int) { m.pids.Store(&pids) }

// Start lets people look at the ranks. The job does not depend on it.
func (m *Monitor) Start(o *cli.Options) (end func()) {
	for i, p := range o.Programs {
		if i > 0 {
			m.job.Command = append(m.job.Command, ":")
		}
		m.job.Command = append(m.job.Command, p.Args...)
	}
	server, err := inspect.Serve(m)
	if err != nil {
		m.streams.Say("ibrun ps, top and hang will not see this job: %v", err)
	}
	m.goroutines.Go(m.sampleLoop)
	return func() {
		m.stop()
		if err := server.Close(); err != nil {
			m.streams.Say("%v", err)
		}
		m.goroutines.Wait()
	}
}

// Every so often it is seen who gets on, and a bar on a terminal is drawn anew.
const (
	sampleInterval = time.Second
	barEvery       = 250 * time.Millisecond
)

// Job is part of [live.Source], as are Ranks and Stacks.
func (m *Monitor) Job() inspect.Job { return m.job }

// Ranks returns all ranks of the job, ascending. It waits at most remoteTimeout for other nodes.
func (m *Monitor) Ranks(ctx context.Context) ([]inspect.Rank, error) {
	return m.allRanks(ctx, nil), nil
}

// ShowHangView shows what the ranks wait for, unless that is being done. The channel is closed when it has been.
func (m *Monitor) ShowHangView() <-chan struct{} {
	shown := make(chan struct{})
	if m.viewing.Swap(true) {
		close(shown)
		return shown
	}
	m.goroutines.Go(func() {
		defer close(shown)
		defer m.viewing.Store(false)
		v, err := inspect.Look(m.ctx, m)
		if err != nil {
			return // the job has ended meanwhile
		}
		var text strings.Builder
		if err := v.Text(&text); err == nil {
			m.streams.Say("%s", strings.TrimSuffix(text.String(), "\n"))
		}
	})
	return shown
}
