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

// monitor is who looks at the ranks of this node while they run, and asks other nodes about theirs, for those who want to know: the
// commands, signals, the end by --timeout.
type monitor struct {
	l     *localAgent
	job   inspect.Job
	watch *inspect.Watch
	pids  atomic.Pointer[[]int] // of the ranks that were started

	remotes []*remoteNode // none for a job on one node
	hosts   []string      // by rank; nil for such

	ctx        context.Context // ends before the job is over
	stop       context.CancelFunc
	goroutines sync.WaitGroup
	viewing    atomic.Bool // somebody makes a view already

	reportProgress func(progress) // tells node 0 how far the ranks here are; nil on node 0

	mu             sync.Mutex
	remoteProgress map[int]progress      // of other nodes, by node
	stackWaiters   map[int][]chan string // who waits for the stacks of a rank
	lastRequest    uint64                // inquiry
	openRequests   map[uint64]*remoteRequest
}

func newMonitor(l *localAgent) *monitor {
	k := &monitor{l: l, watch: inspect.NewWatch(), remoteProgress: map[int]progress{}, stackWaiters: map[int][]chan string{}, openRequests: map[uint64]*remoteRequest{},
		job: inspect.Job{
			ID: l.task.JobID, Host: l.task.Host, Node: l.task.Node, Nodes: l.task.Nodes, PID: os.Getpid(),
			Size: l.task.Size, Here: len(l.task.Ranks), Began: time.Now()}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// serveStatus lets people look at the ranks. The job does not depend on it.
func (l *localAgent) serveStatus(o *cli.Options) (end func()) {
	k := l.monitor
	for i, p := range o.Programs {
		if i > 0 {
			k.job.Command = append(k.job.Command, ":")
		}
		k.job.Command = append(k.job.Command, p.Args...)
	}
	desk, err := inspect.Serve(k)
	if err != nil {
		l.Say("ibrun ps, top and hang will not see this job: %v", err)
	}
	k.goroutines.Go(k.sampleLoop)
	return func() {
		k.stop()
		if err := desk.Close(); err != nil {
			l.Say("%v", err)
		}
		k.goroutines.Wait()
	}
}

// Every so often it is seen who gets on, and a bar on a terminal is drawn anew.
const (
	sampleInterval = time.Second
	barEvery       = 250 * time.Millisecond
)

// sampleLoop notes since when ranks do what they do, and shows how far they are, or tells node 0.
func (k *monitor) sampleLoop() {
	every := sampleInterval
	terminal := term.IsTerminal(int(k.l.Err.Fd()))
	if terminal {
		every = barEvery
	}
	show := progressFilter{asLines: !terminal && k.reportProgress == nil}
	tick := time.NewTicker(every)
	defer tick.Stop()
	blind := false // it has been said that ranks cannot be looked at
	for {
		select {
		case <-k.ctx.Done():
			sum, _ := k.sampleProgress(time.Now()) // what cannot be read has been said
			if p := show.last(sum); p != nil && k.reportProgress == nil {
				k.l.Say("progress: %v", p)
			}
			return
		case now := <-tick.C:
			sum, err := k.sampleProgress(now)
			if err != nil && !blind {
				blind = true
				k.l.Say("nobody can look on at what some ranks do: %v", err)
			}
			switch p := show.next(sum, now); {
			case p == nil:
			case k.reportProgress != nil:
				k.reportProgress(sum)
			case terminal:
				k.l.order(&order{Bar: p})
			default:
				k.l.Say("progress: %v", p)
			}
		}
	}
}

// sampleProgress looks at the ranks here, and adds up how far they and those of other nodes are. The error says why some cannot be
// looked at.
func (k *monitor) sampleProgress(now time.Time) (sum progress, err error) {
	pulses, err := k.l.perfMem.pulses()
	for i, p := range pulses {
		k.watch.See(k.l.task.Ranks[i].Rank, p, now)
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.remoteProgress {
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	return sum, err
}

// setRemoteProgress takes in how far the ranks of another node are.
func (k *monitor) setRemoteProgress(node int, p progress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remoteProgress[node] = p
}

// reportFinalProgress tells node 0 how far the ranks here came.
func (k *monitor) reportFinalProgress() {
	if p, _ := k.sampleProgress(time.Now()); p.Total > 0 { // what cannot be read has been said
		k.reportProgress(p)
	}
}

// Job is part of [live.Source], as are Ranks and Stacks.
func (k *monitor) Job() inspect.Job { return k.job }

func (k *monitor) Ranks(ctx context.Context) ([]inspect.Rank, error) {
	return k.allRanks(ctx, nil), nil
}

// localRanks are the ranks here.
func (k *monitor) localRanks() []inspect.Rank {
	var pids []int
	if p := k.pids.Load(); p != nil {
		pids = *p
	}
	seen := k.l.samples()
	all := make([]inspect.Rank, len(k.l.task.Ranks))
	now := time.Now()
	for i := range all {
		g := rankSample{rank: k.l.task.Ranks[i].Rank, exited: k.l.exited[i].Load()}
		if i < len(seen) {
			g = seen[i]
		}
		all[i] = k.rank(g, now)
		if i < len(pids) {
			inspectProcess(&all[i], pids[i], g.snapshot)
		}
		if g.exited {
			all[i].State = inspect.Ended
		}
	}
	return all
}

// rank is what a rank has recorded.
func (k *monitor) rank(g rankSample, now time.Time) inspect.Rank {
	r := inspect.Rank{Rank: g.rank, State: inspect.Starting}
	if g.err != nil {
		r.Error = g.err.Error()
	}
	s := g.snapshot
	if s == nil {
		quiet, _ := k.watch.See(g.rank, perf.Pulse{}, now)
		r.Quiet = quiet.Seconds()
		return r
	}
	quiet, waits := k.watch.See(g.rank, s.Pulse(), now)
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
	if s != nil && s.PID != pid && isBelow(s.PID, pid) {
		pid = s.PID
	}
	r.PID = pid
	p, err := readProcess(pid)
	if err != nil {
		r.State = inspect.Ended
		return
	}
	r.CPU, r.Process = p.cpu.Seconds(), string(p.state)
	switch {
	case p.state == 'T' || p.state == 't':
		r.State = inspect.Stopped
	case p.exiting:
		r.State = inspect.Ended
	case s == nil:
		if where, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && string(where) != "0" {
			r.WaitsIn = strings.TrimSpace(string(where))
		}
	}
}

// isBelow tells whether a process is a descendant of another.
func isBelow(pid, ancestor int) bool {
	for range 16 { // more than programs that start programs
		p, err := readProcess(pid)
		if err != nil || p.parent <= 1 {
			return false
		}
		if p.parent == ancestor {
			return true
		}
		pid = p.parent
	}
	return false
}

func (k *monitor) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	return k.allStacks(ctx, ranks, nil), nil
}

// localStacks are those of ranks here that answer before ctx ends.
func (k *monitor) localStacks(ctx context.Context, ranks []int) map[int]string {
	answers := make([]chan string, len(ranks))
	k.mu.Lock()
	for i, rank := range ranks {
		answers[i] = make(chan string, 1)
		k.stackWaiters[rank] = append(k.stackWaiters[rank], answers[i])
	}
	k.mu.Unlock()
	k.l.order(&order{Stacks: ranks})
	texts := map[int]string{}
	for i, rank := range ranks {
		select {
		case texts[rank] = <-answers[i]:
		case <-ctx.Done():
		case <-k.ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, rank := range ranks {
		k.stackWaiters[rank] = slices.DeleteFunc(k.stackWaiters[rank], func(c chan string) bool { return c == answers[i] })
		if len(k.stackWaiters[rank]) == 0 {
			delete(k.stackWaiters, rank)
		}
		if texts[rank] == "" {
			delete(texts, rank)
		}
	}
	return texts
}

// deliverStacks hands on what a rank's goroutines do to all who wait for it.
func (k *monitor) deliverStacks(e *event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.stackWaiters[e.Rank] {
		c <- e.Text
	}
	delete(k.stackWaiters, e.Rank)
}

// showHangView shows what the ranks wait for, unless that is being done. The channel is closed when it has been.
func (k *monitor) showHangView() <-chan struct{} {
	shown := make(chan struct{})
	if k.viewing.Swap(true) {
		close(shown)
		return shown
	}
	k.goroutines.Go(func() {
		defer close(shown)
		defer k.viewing.Store(false)
		v, err := inspect.Look(k.ctx, k)
		if err != nil {
			return // the job has ended meanwhile
		}
		var text strings.Builder
		if err := v.Text(&text); err == nil {
			k.l.Say("%s", strings.TrimSuffix(text.String(), "\n"))
		}
	})
	return shown
}
