package launch

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/perf"
	"golang.org/x/term"
)

// Monitor is who looks at the ranks of this node while they run, and asks other nodes about theirs, for those who want to know: the
// commands, signals, the end by --timeout.
type Monitor struct {
	task    *Task
	mem     *Memory
	streams Streams
	order   func(*Order)  // sends an order to this node's agent
	exited  []atomic.Bool // by index in task.Ranks

	job   inspect.Job
	watch *inspect.Watch
	pids  atomic.Pointer[[]int] // of the ranks that were started

	remotes []*RemoteNode // none for a job on one node
	hosts   []string      // by rank; nil for such

	ctx        context.Context // ends before the job is over
	stop       context.CancelFunc
	goroutines sync.WaitGroup
	viewing    atomic.Bool // somebody makes a view already

	reportProgress func(Progress) // tells node 0 how far the ranks here are; nil on node 0

	mu             sync.Mutex
	remoteProgress map[int]Progress      // of other nodes, by node
	stackWaiters   map[int][]chan string // who waits for the stacks of a rank
	lastRequest    uint64                // inquiry
	openRequests   map[uint64]*remoteRequest
}

func NewMonitor(t *Task, mem *Memory, s Streams, send func(*Order)) *Monitor {
	m := &Monitor{task: t, mem: mem, streams: s, order: send, exited: make([]atomic.Bool, len(t.Ranks)),
		watch: inspect.NewWatch(), remoteProgress: map[int]Progress{}, stackWaiters: map[int][]chan string{},
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

// sampleLoop notes since when ranks do what they do, and shows how far they are, or tells node 0.
func (m *Monitor) sampleLoop() {
	every := sampleInterval
	terminal := term.IsTerminal(int(m.streams.Err.Fd()))
	if terminal {
		every = barEvery
	}
	show := progressFilter{asLines: !terminal && m.reportProgress == nil}
	tick := time.NewTicker(every)
	defer tick.Stop()
	blind := false // it has been said that ranks cannot be looked at
	for {
		select {
		case <-m.ctx.Done():
			sum, _ := m.sampleProgress(time.Now()) // what cannot be read has been said
			if p := show.last(sum); p != nil && m.reportProgress == nil {
				m.streams.Say("progress: %v", p)
			}
			return
		case now := <-tick.C:
			sum, err := m.sampleProgress(now)
			if err != nil && !blind {
				blind = true
				m.streams.Say("nobody can look on at what some ranks do: %v", err)
			}
			switch p := show.next(sum, now); {
			case p == nil:
			case m.reportProgress != nil:
				m.reportProgress(sum)
			case terminal:
				m.order(&Order{Bar: p})
			default:
				m.streams.Say("progress: %v", p)
			}
		}
	}
}

// sampleProgress looks at the ranks here, and adds up how far they and those of other nodes are. The error says why some cannot be
// looked at.
func (m *Monitor) sampleProgress(now time.Time) (sum Progress, err error) {
	pulses, err := m.mem.Pulses()
	for i, p := range pulses {
		m.watch.See(m.task.Ranks[i].Rank, p, now)
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.remoteProgress {
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	return sum, err
}

// SetRemoteProgress takes in how far the ranks of another node are.
func (m *Monitor) SetRemoteProgress(node int, p Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remoteProgress[node] = p
}

// ReportFinalProgress tells node 0 how far the ranks here came.
func (m *Monitor) ReportFinalProgress() {
	if p, _ := m.sampleProgress(time.Now()); p.Total > 0 { // what cannot be read has been said
		m.reportProgress(p)
	}
}

// Job is part of [live.Source], as are Ranks and Stacks.
func (m *Monitor) Job() inspect.Job { return m.job }

func (m *Monitor) Ranks(ctx context.Context) ([]inspect.Rank, error) {
	return m.allRanks(ctx, nil), nil
}

// localRanks are the ranks here.
func (m *Monitor) localRanks() []inspect.Rank {
	var pids []int
	if p := m.pids.Load(); p != nil {
		pids = *p
	}
	seen := m.Samples()
	all := make([]inspect.Rank, len(m.task.Ranks))
	now := time.Now()
	for i := range all {
		g := Sample{Rank: m.task.Ranks[i].Rank, Exited: m.exited[i].Load()}
		if i < len(seen) {
			g = seen[i]
		}
		all[i] = m.rank(g, now)
		if i < len(pids) {
			inspectProcess(&all[i], pids[i], g.Snapshot)
		}
		if g.Exited {
			all[i].State = inspect.Ended
		}
	}
	return all
}

// rank is what a rank has recorded.
func (m *Monitor) rank(g Sample, now time.Time) inspect.Rank {
	r := inspect.Rank{Rank: g.Rank, State: inspect.Starting}
	if g.Err != nil {
		r.Error = g.Err.Error()
	}
	s := g.Snapshot
	if s == nil {
		quiet, _ := m.watch.See(g.Rank, perf.Pulse{}, now)
		r.Quiet = quiet.Seconds()
		return r
	}
	quiet, waits := m.watch.See(g.Rank, s.Pulse(), now)
	if r.State = inspect.Running; s.State == perf.Finalized {
		r.State = inspect.Finalized
	}
	r.Quiet, r.Wall, r.MPI = quiet.Seconds(), s.Wall(now).Seconds(), s.Time().Seconds()
	r.Calls, _ = s.Calls()
	for _, p := range s.Peers {
		r.BytesOut, r.BytesIn = r.BytesOut+p.Out.Bytes, r.BytesIn+p.In.Bytes
	}
	r.Unexpected, r.Posted, r.Done, r.Total = s.Queues.Unexpected, s.Queues.Posted, s.Done, s.Total
	for i, c := range s.Current {
		r.Waits = append(r.Waits, inspect.Wait{Seq: c.Seq, Op: c.Op.String(), Collective: c.Op.IsCollective(), Peer: c.Peer, Tag: c.Tag,
			Bytes: c.Bytes, Seconds: waits[i].Seconds()})
	}
	return r
}

// inspect adds what the kernel tells of a rank's process: of the one that was started, or of the one below it that has recorded
// something.
func inspectProcess(r *inspect.Rank, pid int, s *perf.Snapshot) {
	if s != nil && s.PID != pid && IsDescendant(s.PID, pid) {
		pid = s.PID
	}
	r.PID = pid
	p, err := ReadProcess(pid)
	if err != nil {
		r.State = inspect.Ended
		return
	}
	r.CPU, r.Process = p.CPU.Seconds(), string(p.State)
	switch {
	case p.State == 'T' || p.State == 't':
		r.State = inspect.Stopped
	case p.Exiting:
		r.State = inspect.Ended
	case s == nil:
		if where, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && string(where) != "0" {
			r.WaitsIn = strings.TrimSpace(string(where))
		}
	}
}

// IsDescendant tells whether a process is a descendant of another.
func IsDescendant(pid, ancestor int) bool {
	for range 16 { // more than programs that start programs
		p, err := ReadProcess(pid)
		if err != nil || p.Parent <= 1 {
			return false
		}
		if p.Parent == ancestor {
			return true
		}
		pid = p.Parent
	}
	return false
}

func (m *Monitor) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	return m.allStacks(ctx, ranks, nil), nil
}

// localStacks are those of ranks here that answer before ctx ends.
func (m *Monitor) localStacks(ctx context.Context, ranks []int) map[int]string {
	answers := make([]chan string, len(ranks))
	m.mu.Lock()
	for i, rank := range ranks {
		answers[i] = make(chan string, 1)
		m.stackWaiters[rank] = append(m.stackWaiters[rank], answers[i])
	}
	m.mu.Unlock()
	m.order(&Order{Stacks: ranks})
	texts := map[int]string{}
	for i, rank := range ranks {
		select {
		case texts[rank] = <-answers[i]:
		case <-ctx.Done():
		case <-m.ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, rank := range ranks {
		m.stackWaiters[rank] = slices.DeleteFunc(m.stackWaiters[rank], func(c chan string) bool { return c == answers[i] })
		if len(m.stackWaiters[rank]) == 0 {
			delete(m.stackWaiters, rank)
		}
		if texts[rank] == "" {
			delete(texts, rank)
		}
	}
	return texts
}

// DeliverStacks hands on what a rank's goroutines do to all who wait for it.
func (m *Monitor) DeliverStacks(rank int, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.stackWaiters[rank] {
		c <- text
	}
	delete(m.stackWaiters, rank)
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
