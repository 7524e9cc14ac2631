package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/internal/pmi"
	"golang.org/x/sys/unix"
)

// agentControl is the descriptor on which an agent hears from ibrun.
const controlFD = 3

// agent starts the ranks of one node and does with them what ibrun orders.
type agent struct {
	task          *Task
	ranks         []*rank // those that were started
	server        *pmi.Server
	out           *output
	devNull       *os.File // standard input of all ranks but rank 0
	group         *Cgroup
	perfMem       *Memory // nil: there are none
	exits         *exitWatcher
	reaper        *Reaper
	closing       atomic.Bool   // no more ranks are to be started
	started       chan struct{} // closed when no more ranks will be
	exitsReported chan struct{} // closed when all deaths have been told

	mu          sync.Mutex
	events      *json.Encoder
	firstFailed int // the rank that has failed first here, -1: none

	// What startAll needs, which alone uses it.
	allowedPUs []int // PUs
	setMemory  bool  // ranks get the memory that their plan says
}

// Agent is the program of an agent, which ibrun starts with a socket as descriptor 3. It returns the exit code.
func Agent() int {
	runtime.LockOSThread() // for good: see startAll
	if kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		fmt.Fprintln(os.Stderr, "ibrun: agent is a part of ibrun that it starts itself; a program of that name: ibrun -- agent")
		return UsageError
	}
	unix.CloseOnExec(controlFD)
	control := os.NewFile(controlFD, "ibrun")
	// Orders come by the socket; what a rank sends to its process group, which is the agent's, is not for the
	// agent. And writing to an output that nobody reads is to be an error. Ranks start without these handlers.
	Notify(make(chan os.Signal, 1), append(append(EndSignals(), ForwardedSignals()...), HangViewSignal, unix.SIGPIPE))

	orders := json.NewDecoder(control)
	var first Order
	if err := orders.Decode(&first); err != nil || first.Start == nil {
		return Failed // ibrun has died
	}
	a, err := newAgent(first.Start, control)
	if err != nil {
		a.send(&Event{Kind: EventNotStarted, Rank: -1, Code: Failed, Text: err.Error()})
		return Failed
	}
	ended := make(chan struct{})
	go func() {
		a.handleOrders(readOrders(orders))
		close(ended)
	}()
	a.startAll()
	<-ended
	return 0
}

// newAgent returns an agent that can at least send, also with an error.
func newAgent(t *Task, control io.Writer) (a *agent, err error) {
	a = &agent{task: t, started: make(chan struct{}), exitsReported: make(chan struct{}), events: json.NewEncoder(control), firstFailed: -1}
	a.out = newOutput(os.Stdout, os.Stderr, len(t.Ranks) == 1)
	if err := BecomeSubreaper(); err != nil {
		return a, err
	}
	if err := a.initBinding(); err != nil {
		return a, err
	}
	if a.devNull, err = os.Open(os.DevNull); err != nil {
		return a, err
	}
	if t.Pages {
		if a.perfMem, err = Inherit(len(t.Ranks)); err != nil {
			return a, err
		}
	}
	if a.exits, err = newExitWatcher(len(t.Ranks)); err != nil {
		return a, err
	}
	job := pmi.Job{Size: t.Size, KVSName: "ibrun-" + t.JobID, Mapping: t.Mapping, Node: t.Node, Events: pmi.Events{
		Init: func(rank int) { a.send(&Event{Kind: EventInit, Rank: rank}) },
		Finalize: func(rank int) {
			a.exits.finalized(t.LocalIndex(rank))
			a.send(&Event{Kind: EventFinalize, Rank: rank})
		},
		Abort: a.reportAbort,
	}}
	for i, p := range t.Programs {
		job.AppNums = append(job.AppNums, slices.Repeat([]int{i}, p.Ranks)...)
	}
	if t.Nodes > 1 {
		job.Up = func(p *pmi.Parcel) { a.send(&Event{Kind: EventParcel, Parcel: p}) }
	}
	if a.server, err = pmi.NewServer(job); err != nil {
		return a, err
	}
	a.group = NewCgroup(fmt.Sprintf("%s-%d", t.JobID, t.Node))
	return a, nil
}

// send tells ibrun something. That ibrun has died is noticed where its orders are read.
func (a *agent) send(e *Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if a.firstFailed < 0 && (e.Kind == EventAbort || e.Kind == EventExit && !e.AfterEnd && (e.Code != 0 || e.Signal != 0)) {
		a.firstFailed = e.Rank
	}
	_ = a.events.Encode(e)
}

// readOrders turns a stream of orders into a channel that is closed at its end.
func readOrders(from *json.Decoder) <-chan Order {
	orders := make(chan Order)
	go func() {
		defer close(orders)
		for {
			var o Order
			if from.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// handleOrders does what ibrun orders until the last rank is gone and ibrun wants no more, or is gone itself.
func (a *agent) handleOrders(orders <-chan Order) {
	var (
		ending *EndOrder
		grace  <-chan time.Time
		gone   <-chan struct{}
	)
	go func() {
		<-a.started
		a.reportExits()
	}()
	for {
		select {
		case o, alive := <-orders:
			switch {
			case !alive:
				a.stopStarting()
				a.killAll()
				return
			case o.Signal != 0:
				<-a.started
				a.signalAll(unix.Signal(o.Signal))
			case o.Parcel != nil:
				if err := a.server.Deliver(o.Parcel); err != nil {
					a.send(&Event{Kind: EventNote, Rank: -1, Text: err.Error()})
				}
			case o.Stacks != nil:
				<-a.started
				a.requestStacks(o.Stacks)
			case o.Bar != nil:
				a.out.drawBar(o.Bar)
			case o.End != nil:
				a.stopStarting()
				if ending == nil {
					a.exits.markAlive()
				}
				if ending == nil && o.End.Grace > 0 && !isClosed(a.reaper.Gone) {
					a.signalAll(unix.SIGTERM)
					a.signalAll(unix.SIGCONT) // a stopped process would not notice
				}
				ending, gone, grace = o.End, a.reaper.Gone, time.After(o.End.Grace)
			}
		case <-gone:
			a.finish(ending, orders)
			return
		case <-grace:
			a.finish(ending, orders)
			return
		}
	}
}

// isClosed tells whether a channel is closed that nobody sends on.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stopStarting waits until no more ranks are started.
func (a *agent) stopStarting() {
	a.closing.Store(true)
	<-a.started
}

// signalAll sends a signal to all ranks and to everything they started, which a rank that is a shell would not pass on.
func (a *agent) signalAll(sig unix.Signal) {
	ranks := map[int]bool{}
	for _, r := range a.ranks {
		ranks[r.pid] = true
		_ = unix.PidfdSendSignal(r.pidfd, sig, nil, 0) // it may have died
	}
	for pid, parent := range Descendants(os.Getpid()) {
		if !ranks[pid] {
			SignalChild(pid, parent, sig)
		}
	}
}

// killAll kills everything below the agent and returns the pids of what does not die.
func (a *agent) killAll() (stuck []int) {
	for _, r := range a.ranks {
		_ = unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0) // it may have died already
	}
	stuck = KillDescendants(a.reaper.Gone, a.group)
	if err := a.group.Remove(); err != nil && len(stuck) == 0 {
		a.send(&Event{Kind: EventNote, Rank: -1, Text: err.Error()})
	}
	return stuck
}

// finish ends what is left and sends the last event, once all deaths have been told and all output has been passed on, or ibrun
// does not want to wait for that. ibrun dying is reason not to wait.
func (a *agent) finish(e *EndOrder, orders <-chan Order) {
	done := Event{Kind: EventDone, PIDs: a.killAll()}
	shown := make(chan struct{})
	go func() {
		<-a.exitsReported
		a.out.forwarders.Wait()
		a.out.stderr.endBar()
		close(shown)
	}()
	enough := after(e.OutputTimeout)
	for waiting := len(done.PIDs) == 0; waiting; {
		select {
		case <-shown:
			waiting = false
		case <-enough:
			done.Output = a.out.undelivered(a.task.Host)
			waiting = false
		case o, alive := <-orders:
			if !alive {
				return
			}
			if o.End != nil {
				e, enough = o.End, after(o.End.OutputTimeout)
			}
		}
	}
	if done.Rank = e.LastOutputOf; a.task.LocalIndex(e.LastOutputOf) < 0 {
		a.mu.Lock()
		done.Rank = a.firstFailed // which node 0 may find to have been before the one that it knows of
		a.mu.Unlock()
	}
	for _, r := range a.ranks {
		if r.task.Rank == done.Rank {
			done.Text = r.output.lastLines()
		}
	}
	a.send(&done)
}

// after is time.After, and never for 0.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// reportExits reports the deaths of ranks in their order.
func (a *agent) reportExits() {
	defer close(a.exitsReported)
	for range a.ranks {
		i, when, err := a.exits.next()
		if err != nil {
			a.send(&Event{Kind: EventNote, Rank: -1, Text: err.Error()})
			return
		}
		r := a.ranks[i]
		ws := a.reaper.Wait(r.pid)
		close(r.exited)
		a.drainConnections(r)
		exit := Event{Kind: EventExit, Time: when.UnixNano(), Rank: r.task.Rank, Code: ws.ExitStatus(),
			AfterEnd: a.exits.ranks[i].aliveAtEnd.Load()}
		if ws.Signaled() {
			exit.Code, exit.Signal = 0, int(ws.Signal())
		}
		a.send(&exit)
		close(r.reported)
	}
}

// reportAbort tells that a rank wants the job to end, behind the ends of those that it may have seen die and wants it for.
func (a *agent) reportAbort(rank, code int, text string) {
	e := Event{Kind: EventAbort, Time: time.Now().UnixNano(), Rank: rank, Code: code, Text: text}
	a.awaitExits(a.task.LocalIndex(rank))
	a.send(&e)
}

// awaitExits waits until of all ranks that are dead or dying it has been told, or is about to be of the one that waits.
func (a *agent) awaitExits(local int) {
	enough := time.After(exitTimeoutMillis * time.Millisecond) // one of them is stuck, or ranks are still being started
	select {
	case <-a.started:
	case <-enough:
		return
	}
	for i, r := range a.ranks {
		if i == local || isClosed(r.reported) || !a.exits.ranks[i].isDying() {
			continue
		}
		select {
		case <-r.reported:
		case <-a.ranks[local].exited:
			return
		case <-enough:
			return
		}
	}
}

// drainConnections waits until all that a dead rank said by PMI and by its link has been heard, so that it comes before its exit.
func (a *agent) drainConnections(r *rank) {
	// From now on nothing more comes in, even if children of the rank still hold its ends, and no answer waits to be taken; what has
	// come is read first.
	if conn, err := r.pmi.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // it may be closed already
	}
	<-r.pmiDone
	if err := r.link.CloseRead(); err != nil { // nobody has closed it before
		a.send(&Event{Kind: EventNote, Rank: r.task.Rank, Text: err.Error()})
		return
	}
	<-r.linkDone
}

// servePMI answers one rank until its connection ends.
func (a *agent) servePMI(r *rank) {
	defer close(r.pmiDone)
	err := a.server.Serve(r.task.Rank, r.pmi)
	if err != nil && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
		a.send(&Event{Kind: EventNote, Rank: r.task.Rank, Text: err.Error()})
	}
}

// onOutputError tells why a rank's output stops. That nobody reads it any more is no news to the user who sees to it.
func (a *agent) onOutputError(rank int) func(error) {
	return func(err error) {
		if !errors.Is(err, unix.EPIPE) {
			a.send(&Event{Kind: EventNote, Rank: rank, Text: fmt.Sprintf("its output cannot be passed on: %v", err)})
		}
	}
}
