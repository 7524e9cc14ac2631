package agent

import (
	"crypto/sha256"
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

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/output"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/pmi"
)

// The descriptors that the agent inherits, in addition to [perfmem.AgentFD].
const (
	controlFD = 3                   // the control socket, by which the agent receives orders and sends events
	cgroupFD  = perfmem.AgentFD + 1 // the control group for the ranks; closed: there is none
)

// agent starts the ranks of one node and executes the orders of ibrun.
type agent struct {
	task          *protocol.Task
	ranks         []*rank // the ranks that were started
	server        *pmi.Server
	out           *output.Merger
	devNull       *os.File // standard input of all ranks but rank 0
	group         *proctree.Cgroup
	perfMem       *perfmem.Memory // nil: ranks record nothing
	sockets       *nodeSockets
	maxFiles      uint64 // the limit of open files
	exits         *exitWatcher
	reaper        *proctree.Reaper
	oom           *proctree.OOMCounter
	closing       atomic.Bool   // no more ranks may be started
	started       chan struct{} // closed when no more ranks will be started
	exitsReported chan struct{} // closed when the exits of all ranks have been reported

	events *outbox.Writer // to ibrun

	mu          sync.Mutex
	firstFailed int                        // the rank of this node that failed first; -1: none
	noted       map[[sha256.Size]byte]bool // hashes of the values of ranklink.Note.Once that ranks have sent

	left leftRanks

	// Only startAll uses the fields below.
	allowedPUs []int // the processors that the agent may use
	setMemory  bool  // ranks get the memory policy of their task
}

// Main runs the agent that ibrun started with a socket as descriptor 3, and returns its exit code. Without the socket it prints
// why to errs.
func Main(errs io.Writer) int {
	runtime.LockOSThread() // never unlocked: see startAll
	if kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		fmt.Fprintln(errs, "ibrun: the command agent is only for ibrun itself; to run a program of that name: ibrun -- agent")
		return exitcode.UsageError
	}
	unix.CloseOnExec(controlFD)
	control := os.NewFile(controlFD, "ibrun")
	// The agent receives orders by the socket, so it ignores signals that a rank sends to its process group, which is the
	// agent's as well. It also ignores SIGPIPE, so that writing to an output without a reader returns an error. Ranks do not
	// inherit these handlers.
	console.Notify(make(chan os.Signal, 1), append(append(console.EndSignals(), console.ForwardedSignals()...),
		console.HangViewSignal, unix.SIGPIPE))

	orders := json.NewDecoder(control)
	var first protocol.Order
	if err := orders.Decode(&first); err != nil || first.Start == nil {
		return exitcode.Failed // ibrun has died
	}
	a, err := newAgent(first.Start, control)
	if err != nil {
		a.send(&protocol.Event{Kind: protocol.EventNotStarted, Rank: -1, Code: exitcode.Failed, Text: err.Error()})
		a.events.Flush(0)
		return exitcode.Failed
	}
	ended := make(chan struct{})
	go func() {
		a.handleOrders(readOrders(orders))
		close(ended)
	}()
	a.startAll()
	<-ended
	a.events.Flush(0) // returns immediately if ibrun has died
	return 0
}

// newAgent prepares an agent for a task. Even with an error, it returns an agent that can send events.
func newAgent(t *protocol.Task, control io.Writer) (a *agent, err error) {
	a = &agent{task: t, started: make(chan struct{}), exitsReported: make(chan struct{}), events: newEvents(control),
		firstFailed: -1}
	a.left.init()
	a.out = output.New(os.Stdout, os.Stderr, len(t.Ranks) == 1)
	a.out.ShowPartial(t.ShowPartial[0], t.ShowPartial[1])
	if err := proctree.BecomeSubreaper(); err != nil {
		return a, err
	}
	if err := a.initBinding(); err != nil {
		return a, err
	}
	if a.devNull, err = os.Open(os.DevNull); err != nil {
		return a, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return a, fmt.Errorf("read limit of open files: %w", err)
	}
	a.maxFiles = files.Max
	if t.Pages {
		if a.perfMem, err = perfmem.Inherit(len(t.Ranks), newRankFDs(a.maxFiles).record); err != nil {
			return a, err
		}
	}
	if a.sockets, err = newNodeSockets(len(t.Ranks)); err != nil {
		return a, err
	}
	if a.exits, err = newExitWatcher(len(t.Ranks)); err != nil {
		return a, err
	}
	job := pmi.Job{Size: t.Size, KVSName: "ibrun-" + t.JobID, Mapping: t.Mapping, Node: t.Node, Events: pmi.Events{
		Init: func(rank int) { a.sendFromRank(&protocol.Event{Kind: protocol.EventInit, Rank: rank}) },
		Finalize: func(rank int) {
			a.exits.finalized(t.LocalIndex(rank))
			a.sendFromRank(&protocol.Event{Kind: protocol.EventFinalize, Rank: rank})
		},
		Abort: a.reportAbort,
	}}
	for i, p := range t.Programs {
		job.AppNums = append(job.AppNums, slices.Repeat([]int{i}, p.Ranks)...)
	}
	if t.Nodes > 1 {
		job.ToExchange = func(p *pmi.ExchangeMessage) {
			a.sendFromRank(&protocol.Event{Kind: protocol.EventExchange, Exchange: p})
		}
	}
	if a.server, err = pmi.NewServer(job); err != nil {
		return a, err
	}
	a.group = proctree.InheritCgroup(cgroupFD)
	a.oom = proctree.NewOOMCounter()
	return a, nil
}

// newEvents returns the queue of the events that are written to a control socket.
func newEvents(control io.Writer) *outbox.Writer {
	return outbox.New(func(event []byte) error {
		_, err := control.Write(event)
		return err
	})
}

// maxUnsent is how many bytes of events wait at most for ibrun before ranks that cause further ones have to wait.
const maxUnsent = 1 << 20

// sendFromRank is like send, but it blocks while too many events wait for ibrun. It is for events that a rank can cause as
// often as it wants, and must be called only by the goroutines that serve one rank.
func (a *agent) sendFromRank(e *protocol.Event) {
	a.events.WaitBelow(maxUnsent)
	a.send(e)
}

// send sends an event to ibrun. It does not wait for ibrun, which may be stopped. It ignores errors: if ibrun has died,
// handleOrders notices the end of the orders.
func (a *agent) send(e *protocol.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Time == 0 {
		e.Time = time.Now().UnixNano()
	}
	if a.firstFailed < 0 && isFailure(e) {
		a.firstFailed = e.Rank
	}
	if text, err := json.Marshal(e); err == nil { // encoding an event cannot fail
		a.events.Queue(append(text, '\n'))
	}
}

// fail reports that this agent cannot continue the job.
func (a *agent) fail(why error) {
	a.send(&protocol.Event{Kind: protocol.EventFailure, Rank: -1, Code: exitcode.Failed,
		Text: fmt.Sprintf("the agent on %s cannot continue: %v", a.task.Host, why)})
}

// isFailure reports whether an event says that a rank has failed, for another reason than an order to end.
func isFailure(e *protocol.Event) bool {
	switch e.Kind {
	case protocol.EventAbort, protocol.EventInvalidPMI:
		return true
	case protocol.EventExit:
		return !e.AfterEnd && (e.Code != 0 || e.Signal != 0)
	}
	return false
}

// readOrders returns a channel of the orders in a stream. The channel is closed at the end of the stream.
func readOrders(from *json.Decoder) <-chan protocol.Order {
	orders := make(chan protocol.Order)
	go func() {
		defer close(orders)
		for {
			var o protocol.Order
			if from.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// handleOrders executes the orders of ibrun. It returns when ibrun has ordered the end of the job and no rank is left, or when
// ibrun has died.
func (a *agent) handleOrders(orders <-chan protocol.Order) {
	var (
		ending *protocol.EndOrder
		killAt time.Time // when the grace is over
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
				if slices.Contains(console.EndSignals(), os.Signal(unix.Signal(o.Signal))) {
					a.signalAll(unix.SIGCONT) // a stopped process does not handle the signal
				}
			case o.Exchange != nil:
				if err := a.server.Deliver(o.Exchange); err != nil {
					a.fail(err)
				}
			case o.Left != nil:
				a.left.add(o.Left)
			case o.Stacks != nil:
				<-a.started
				a.requestStacks(o.Stacks)
			case o.Bar != nil:
				a.out.DrawBar(o.Bar)
			case o.End != nil:
				a.stopStarting()
				if ending == nil {
					a.exits.markAlive()
				}
				if ending == nil && o.End.Grace > 0 && !isClosed(a.reaper.Gone) {
					a.signalAll(unix.SIGTERM)
					a.signalAll(unix.SIGCONT) // a stopped process does not handle SIGTERM
				}
				// A later order can only shorten the grace.
				if end := time.Now().Add(o.End.Grace); ending == nil || end.Before(killAt) {
					killAt, grace = end, time.After(o.End.Grace)
				}
				ending, gone = o.End, a.reaper.Gone
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

// isClosed reports whether a channel is closed. No values may be sent on it.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// servePMI serves PMI to one rank until its connection ends.
func (a *agent) servePMI(r *rank) {
	defer close(r.pmiDone)
	err := a.server.Serve(r.task.Rank, r.pmi)
	if errors.Is(err, pmi.ErrMalformed) {
		e := protocol.Event{Kind: protocol.EventInvalidPMI, Time: time.Now().UnixNano(), Rank: r.task.Rank,
			Text: fmt.Sprintf("violated PMI-1, the protocol of PMI_FD: %v", errors.Unwrap(err))}
		a.awaitExits(a.task.LocalIndex(r.task.Rank))
		a.send(&e)
		return
	}
	if err != nil && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrClosed) {
		a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: err.Error()})
	}
}

// onOutputError returns a function that reports why the output of a rank can no longer be forwarded. If the user has closed the
// reading end, the exit code is that of other programs, which SIGPIPE kills without words.
func (a *agent) onOutputError(rank int) func(error) {
	return func(err error) {
		e := &protocol.Event{Kind: protocol.EventOutputLost, Rank: rank, Code: exitcode.Failed, Text: err.Error()}
		if errors.Is(err, unix.EPIPE) {
			e.Code, e.Text = exitcode.SignalBase+int(unix.SIGPIPE), ""
		}
		a.send(e)
	}
}
