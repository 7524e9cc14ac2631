package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
)

const (
	// agentTimeout is how long the agent may take to exit after it was ordered to kill, or after EventDone.
	agentTimeout = time.Second
	// endMargin is how long agents may take to end the job in addition to the grace of the ranks and the time for their output.
	endMargin = 3 * time.Second
	// How long agents forward remaining output after the ranks have exited. Without a failure or a request there is no limit.
	requestedOutputTimeout = 500 * time.Millisecond // a signal of the user or --timeout has ended the job
	failedOutputTimeout    = 10 * time.Second
	// hangViewTimeout is how long --timeout waits until the hang view was made and written.
	hangViewTimeout = 3 * time.Second
)

// localAgent is the agent of this node, as the ibrun above it controls it.
type localAgent struct {
	console.Streams
	task    *protocol.Task
	verbose bool
	watcher *watcher.Watcher
	command *watcher.Running // the agent
	control *os.File
	orders  *outbox.Writer // to the agent
	mu      sync.Mutex
	started bool // the agent was given its task
	events  <-chan *protocol.Event
	ended   *watcher.Ended  // how the agent has exited; nil: it has not, or the watcher has died
	perfMem *perfmem.Memory // where ranks record; nil: it could not be allocated
	monitor *monitor.Monitor
	metrics *monitor.Metrics // nil: none are served
	oom     *proctree.OOMCounter
	done    bool  // the agent has sent EventDone
	diedAt  int64 // when events was closed, in nanoseconds since 1970; set before that

	watching     atomic.Bool   // see watchTerminal
	terminalRead chan struct{} // receives when a process of the job reads the terminal in the background

	drawBar func(*protocol.Progress) // nil: the agent draws the progress bar
}

// startLocalAgent starts an agent, which waits for its task: see start. The caller must call cleanUp to end it, and then close.
// What ranks have recorded can be read until close. The agent inherits the files of the second streams.
func startLocalAgent(w *watcher.Watcher, t *protocol.Task, verbose bool, s, inherited console.Streams) (*localAgent, error) {
	record, noPages := perfmem.New(len(t.Ranks))
	t.Pages = record != nil
	command, control, err := startAgent(w, t, inherited, record)
	if err != nil {
		return nil, errors.Join(err, record.Close())
	}
	l := &localAgent{Streams: s, task: t, verbose: verbose, watcher: w, command: command, control: control,
		perfMem: record, oom: proctree.NewOOMCounter(), terminalRead: make(chan struct{}, 1),
		orders: outbox.New(func(order []byte) error {
			_, err := control.Write(order)
			return err
		})}
	l.readEvents()
	l.monitor = monitor.New(t, record, s, l.order)
	if noPages != nil {
		l.Warn("the ranks cannot be monitored", console.Attrs{Error: noPages.Error()})
	}
	return l, nil
}

// startMonitor starts the servers of the monitor. The caller must call end, which ends all but that of the metrics: close does
// that. If ibrun is killed, the watcher removes their files.
func (l *localAgent) startMonitor(set *monitor.Settings) (end func()) {
	sockets, dirs := l.monitor.SocketPaths()
	l.watcher.RemoveAtDeath(watcher.Leftovers{Files: sockets, Dirs: dirs})
	l.metrics = l.monitor.ExportMetrics(set.Metrics, func(files []string) {
		l.watcher.RemoveAtDeath(watcher.Leftovers{Files: files})
	})
	return l.monitor.Start(set)
}

// close releases what is still needed after cleanUp.
func (l *localAgent) close() {
	l.metrics.Close()
	if err := l.perfMem.Close(); err != nil {
		l.Warn("the memory in which the ranks have recorded cannot be released", console.Attrs{Error: err.Error(), Text: err.Error()})
	}
}

// startAgent executes ibrun again as agent. The agent gets a session of its own, so keys like Ctrl-C send signals only to
// ibrun.
func startAgent(w *watcher.Watcher, t *protocol.Task, s console.Streams, record *perfmem.Memory) (*watcher.Running, *os.File,
	error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("start agent: %w", err)
	}
	// Closing a non-blocking descriptor ends a write to an agent that does not read.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start agent: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	control, theirs := os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "agent's end")
	defer theirs.Close()
	in, inherited, err := s.RankInput()
	if err != nil {
		control.Close()
		return nil, nil, fmt.Errorf("start agent: %w", err)
	}
	defer inherited()
	files := []uintptr{in.Fd(), s.Out.Fd(), s.Err.Fd(), theirs.Fd(), perfmem.AgentFD: record.FD()}
	command, err := w.Run(watcher.Command{Path: "/proc/self/exe", Args: []string{"ibrun", "agent"}, Files: files,
		Cgroup: fmt.Sprintf("%s-%d", t.JobID, t.Node)})
	if err != nil {
		control.Close()
		return nil, nil, fmt.Errorf("start agent: %w", err)
	}
	return command, control, nil
}

// readEvents starts to send the events of the agent to l.events. The channel is closed at the end of the stream.
func (l *localAgent) readEvents() {
	events := make(chan *protocol.Event)
	l.events = events
	go func() {
		defer close(events)
		in := json.NewDecoder(l.control)
		for {
			e := new(protocol.Event)
			if in.Decode(e) != nil {
				l.diedAt = time.Now().UnixNano()
				return
			}
			events <- e
		}
	}()
}

// start sends the task to the agent.
func (l *localAgent) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	l.queue(&protocol.Order{Start: l.task})
}

// order sends an order to the agent, and does not wait until the agent has read it. Before start it does nothing: there is no
// rank yet that the order could concern. It ignores errors: if the agent has died, readEvents notices. Any goroutine may call
// it.
func (l *localAgent) order(o *protocol.Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Bar != nil && l.drawBar != nil {
		l.drawBar(o.Bar)
		return
	}
	if !l.started || (o.Bar != nil || o.Stacks != nil) && l.orders.Pending() > 0 {
		return // a stopped agent need not draw a bar later
	}
	l.queue(o)
	if o.End != nil || isEndSignal(o.Signal) {
		_ = unix.PidfdSendSignal(l.command.PIDFD, unix.SIGCONT, nil, 0) // the agent may be stopped, or have exited
	}
}

// queue appends an order to those that are sent: see addSignal. The caller must hold mu.
func (l *localAgent) queue(o *protocol.Order) {
	text := orderText(o)
	if o.Signal == 0 {
		l.orders.Queue(text)
		return
	}
	l.orders.Edit(func(waiting [][]byte) [][]byte {
		return addSignal(waiting, text, o.Signal, func(order []byte, signal int) bool {
			return bytes.Equal(order, orderText(&protocol.Order{Signal: signal}))
		})
	})
}

// orderText returns an order as the agent reads it.
func orderText(o *protocol.Order) []byte {
	text, _ := json.Marshal(o) // encoding an order cannot fail
	return append(text, '\n')
}

// isEndSignal reports whether a signal asks the ranks to end.
func isEndSignal(sig int) bool {
	return slices.Contains(console.EndSignals(), os.Signal(syscall.Signal(sig)))
}

// handleEvent processes the part of an event that concerns this node. It reports whether the event needs no further processing.
func (l *localAgent) handleEvent(e *protocol.Event) (all bool) {
	switch e.Kind {
	case protocol.EventNote:
		text := printable.Line(e.Text)
		a := console.Attrs{Rank: &e.Rank, Text: fmt.Sprintf("rank %d: %s", e.Rank, text)}
		switch {
		case e.Rank < 0:
			l.Warn("the agent reports", console.Attrs{Text: text})
		case e.Info:
			l.Info("a rank reports", a)
		default:
			l.Warn("a rank reports", a)
		}
		return true
	case protocol.EventOutputLost:
		if e.Text != "" {
			l.Warn("the output of a rank cannot be forwarded", console.Attrs{Rank: &e.Rank, Error: e.Text,
				Text: fmt.Sprintf("rank %d: its output cannot be forwarded: %s", e.Rank, e.Text)})
		}
	case protocol.EventStarted:
		l.monitor.SetPIDs(e.PIDs)
		l.describe(e.PIDs)
	case protocol.EventStacks:
		l.monitor.DeliverStacks(e.Rank, e.Text)
		return true
	case protocol.EventAbort:
		e.LostPeer = l.monitor.LostPeer(e.Rank)
	case protocol.EventExit:
		e.LastCall, e.LostPeer = l.monitor.LastCall(e.Rank), l.monitor.LostPeer(e.Rank)
		l.monitor.MarkExited(e.Rank)
	case protocol.EventDone:
		l.done = true
		l.printStuck(e.PIDs)
	}
	return false
}

// describe prints where the ranks run.
func (l *localAgent) describe(pids []int) {
	if !l.verbose {
		return
	}
	for i, pid := range pids {
		r := &l.task.Ranks[i]
		a := console.Attrs{Rank: &r.Rank, PID: pid}
		where := "not bound"
		if len(r.PUs) > 0 {
			a.Cores = hw.FormatList(r.PUs)
			where = "on cores " + a.Cores
		}
		a.Text = fmt.Sprintf("rank %d runs on %s as process %d, %s", r.Rank, l.task.Host, pid, where)
		l.Info("a rank runs", a)
	}
}

// watchTerminal must be called when this process was continued. If it is in the background now, the job must not take what is
// typed: terminalRead receives when the job is to be stopped, as the kernel stops other jobs by SIGTTIN.
func (l *localAgent) watchTerminal() {
	if l.watching.Swap(true) {
		return
	}
	go func() {
		read := l.AwaitBackgroundRead(func() []int { return proctree.DescendantPIDs(l.command.PID) })
		l.watching.Store(false)
		if read {
			l.terminalRead <- struct{}{}
		}
	}()
}

// stopSelf stops this process until SIGCONT. It uses SIGSTOP, as the kernel ignores SIGTSTP for processes in an orphaned
// process group, which no shell controls. It may return before the process has stopped.
func (l *localAgent) stopSelf() {
	l.orders.Flush(agentTimeout)
	l.awaitStopped()
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		l.Warn("ibrun cannot stop itself", console.Attrs{Error: err.Error(), Text: fmt.Sprintf("stop: %v", err)})
	}
}

// awaitStopped blocks until the ranks, which have been sent SIGSTOP, and all processes below them have stopped. Otherwise they
// could still read what the user types when the shell is in the foreground again. It does not wait longer than agentTimeout.
func (l *localAgent) awaitStopped() {
	stopped := func(pid int) bool {
		p, err := proctree.ReadProcess(pid)
		return err != nil || p.Exiting || p.Stopped()
	}
	for began := time.Now(); time.Since(began) < agentTimeout; time.Sleep(time.Millisecond) {
		pids := proctree.DescendantPIDs(l.command.PID)
		if !slices.ContainsFunc(pids, func(pid int) bool { return !stopped(pid) }) {
			return
		}
	}
}

// cleanUp waits for the agent to exit, and kills all processes of the job that are left on this node. It may be called again.
func (l *localAgent) cleanUp() {
	defer l.control.Close()
	if l.done && l.awaitEnd(agentTimeout) {
		return
	}
	l.watcher.Kill()
	if !l.awaitEnd(proctree.KillTimeout + agentTimeout) {
		job := proctree.Root{PID: l.command.PID, PIDFD: l.command.PIDFD, Mark: "PMI_JOBID=" + l.task.JobID,
			Cgroup: l.command.Cgroup}
		l.printStuck(job.Kill())
	}
}

// awaitEnd blocks until neither the agent nor a process below it is left, and reports whether that is so. It returns false
// if the watcher has died, or after a timeout.
func (l *localAgent) awaitEnd(timeout time.Duration) bool {
	if l.ended != nil {
		return true
	}
	select {
	case l.ended = <-l.command.Ended:
		l.printStuck(l.ended.Stuck)
		if l.ended.Err != "" {
			l.Warn("the control group of the ranks cannot be removed", console.Attrs{Error: l.ended.Err, Text: l.ended.Err})
		}
		return true
	case <-l.watcher.Lost:
	case <-time.After(timeout):
	}
	return false
}

func (l *localAgent) printStuck(pids []int) {
	for _, pid := range pids {
		l.Warn("a process does not exit after SIGKILL", console.Attrs{PID: pid,
			Text: fmt.Sprintf("process %d does not exit after SIGKILL; it is stuck in the kernel", pid)})
	}
}

// exitReason describes how the agent exited before it was done. It must be called after cleanUp.
func (l *localAgent) exitReason() string {
	why := "died"
	if l.ended != nil && l.ended.Status.Signaled() {
		sig := l.ended.Status.Signal()
		why = fmt.Sprintf("was killed by signal %d (%s)", sig, unix.SignalName(sig))
		if memory := l.oom.Explain(); sig == unix.SIGKILL && memory != "" {
			why += ": " + memory
		}
	}
	return fmt.Sprintf("the agent on %s (pid %d) %s, and the ranks with it", l.task.Host, l.command.PID, why)
}
