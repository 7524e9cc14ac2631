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

// looks is who looks at the ranks of this node while they run, and asks other nodes about theirs, for those who want to know: the
// commands, signals, the end by --timeout.
type looks struct {
	l     *local
	job   inspect.Job
	since *inspect.Watch
	pids  atomic.Pointer[[]int] // of the ranks that were started

	neighbors []*neighbor // none for a job on one node
	hosts     []string    // by rank; nil for such

	ctx     context.Context // ends before the job is over
	stop    context.CancelFunc
	busy    sync.WaitGroup
	viewing atomic.Bool // somebody makes a view already

	told func(progress) // tells node 0 how far the ranks here are; nil on node 0

	mu   sync.Mutex
	far  map[int]progress      // of other nodes, by node
	wait map[int][]chan string // who waits for the stacks of a rank
	last uint64                // inquiry
	open map[uint64]*inquiry
}

func newLooks(l *local) *looks {
	k := &looks{l: l, since: inspect.NewWatch(), far: map[int]progress{}, wait: map[int][]chan string{}, open: map[uint64]*inquiry{},
		job: inspect.Job{
			ID: l.t.JobID, Host: l.t.Host, Node: l.t.Node, Nodes: l.t.Nodes, PID: os.Getpid(),
			Size: l.t.Size, Here: len(l.t.Ranks), Began: time.Now()}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// lookOn lets people look at the ranks. The job does not depend on it.
func (l *local) lookOn(o *cli.Options) (end func()) {
	k := l.looks
	for i, p := range o.Programs {
		if i > 0 {
			k.job.Command = append(k.job.Command, ":")
		}
		k.job.Command = append(k.job.Command, p.Args...)
	}
	desk, err := inspect.Serve(k)
	if err != nil {
		l.say("ibrun ps, top and hang will not see this job: %v", err)
	}
	k.busy.Go(k.follow)
	return func() {
		k.stop()
		if err := desk.Close(); err != nil {
			l.say("%v", err)
		}
		k.busy.Wait()
	}
}

// Every so often it is seen who gets on, and a bar on a terminal is drawn anew.
const (
	lookEvery = time.Second
	barEvery  = 250 * time.Millisecond
)

// follow notes since when ranks do what they do, and shows how far they are, or tells node 0.
func (k *looks) follow() {
	every := lookEvery
	terminal := term.IsTerminal(int(k.l.Err.Fd()))
	if terminal {
		every = barEvery
	}
	show := meter{lines: !terminal && k.told == nil}
	tick := time.NewTicker(every)
	defer tick.Stop()
	blind := false // it has been said that ranks cannot be looked at
	for {
		select {
		case <-k.ctx.Done():
			sum, _ := k.progress(time.Now()) // what cannot be read has been said
			if p := show.last(sum); p != nil && k.told == nil {
				k.l.say("progress: %v", p)
			}
			return
		case now := <-tick.C:
			sum, err := k.progress(now)
			if err != nil && !blind {
				blind = true
				k.l.say("nobody can look on at what some ranks do: %v", err)
			}
			switch p := show.next(sum, now); {
			case p == nil:
			case k.told != nil:
				k.told(sum)
			case terminal:
				k.l.order(&order{Bar: p})
			default:
				k.l.say("progress: %v", p)
			}
		}
	}
}

// progress looks at the ranks here, and adds up how far they and those of other nodes are. The error says why some cannot be
// looked at.
func (k *looks) progress(now time.Time) (sum progress, err error) {
	pulses, err := k.l.pages.pulses()
	for i, p := range pulses {
		k.since.See(k.l.t.Ranks[i].Rank, p, now)
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.far {
		sum.Done, sum.Total = sum.Done+p.Done, sum.Total+p.Total
	}
	return sum, err
}

// hearProgress takes in how far the ranks of another node are.
func (k *looks) hearProgress(node int, p progress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.far[node] = p
}

// lastProgress tells node 0 how far the ranks here came.
func (k *looks) lastProgress() {
	if p, _ := k.progress(time.Now()); p.Total > 0 { // what cannot be read has been said
		k.told(p)
	}
}

// Job is part of [live.Source], as are Ranks and Stacks.
func (k *looks) Job() inspect.Job { return k.job }

func (k *looks) Ranks(ctx context.Context) ([]inspect.Rank, error) { return k.ranks(ctx, nil), nil }

// own are the ranks here.
func (k *looks) own() []inspect.Rank {
	var pids []int
	if p := k.pids.Load(); p != nil {
		pids = *p
	}
	seen := k.l.glances()
	all := make([]inspect.Rank, len(k.l.t.Ranks))
	now := time.Now()
	for i := range all {
		g := glance{rank: k.l.t.Ranks[i].Rank, dead: k.l.exited[i].Load()}
		if i < len(seen) {
			g = seen[i]
		}
		all[i] = k.rank(g, now)
		if i < len(pids) {
			inspectProcess(&all[i], pids[i], g.snapshot)
		}
		if g.dead {
			all[i].State = inspect.Ended
		}
	}
	return all
}

// rank is what a rank has recorded.
func (k *looks) rank(g glance, now time.Time) inspect.Rank {
	r := inspect.Rank{Rank: g.rank, State: inspect.Starting}
	if g.err != nil {
		r.Error = g.err.Error()
	}
	s := g.snapshot
	if s == nil {
		quiet, _ := k.since.See(g.rank, perf.Pulse{}, now)
		r.Quiet = quiet.Seconds()
		return r
	}
	quiet, waits := k.since.See(g.rank, s.Pulse(), now)
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

func (k *looks) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	return k.stacks(ctx, ranks, nil), nil
}

// ownStacks are those of ranks here that answer before ctx ends.
func (k *looks) ownStacks(ctx context.Context, ranks []int) map[int]string {
	answers := make([]chan string, len(ranks))
	k.mu.Lock()
	for i, rank := range ranks {
		answers[i] = make(chan string, 1)
		k.wait[rank] = append(k.wait[rank], answers[i])
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
		k.wait[rank] = slices.DeleteFunc(k.wait[rank], func(c chan string) bool { return c == answers[i] })
		if len(k.wait[rank]) == 0 {
			delete(k.wait, rank)
		}
		if texts[rank] == "" {
			delete(texts, rank)
		}
	}
	return texts
}

// hearStacks hands on what a rank's goroutines do to all who wait for it.
func (k *looks) hearStacks(e *event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.wait[e.Rank] {
		c <- e.Text
	}
	delete(k.wait, e.Rank)
}

// view shows what the ranks wait for, unless that is being done. The channel is closed when it has been.
func (k *looks) view() <-chan struct{} {
	shown := make(chan struct{})
	if k.viewing.Swap(true) {
		close(shown)
		return shown
	}
	k.busy.Go(func() {
		defer close(shown)
		defer k.viewing.Store(false)
		v, err := inspect.Look(k.ctx, k)
		if err != nil {
			return // the job has ended meanwhile
		}
		var text strings.Builder
		if err := v.Text(&text); err == nil {
			k.l.say("%s", strings.TrimSuffix(text.String(), "\n"))
		}
	})
	return shown
}
