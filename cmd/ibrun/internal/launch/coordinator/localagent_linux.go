package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
)

const (
	// gracePeriod is the time between SIGTERM and SIGKILL once the job has failed.
	gracePeriod = 50 * time.Millisecond
	// agentTimeout is how long the agent may take to exit after it was ordered to kill, or after EventDone.
	agentTimeout = time.Second
	// hangViewTimeout is how long --timeout waits until the hang view was made and written.
	hangViewTimeout = 3 * time.Second
)

// localAgent is the agent of this node, as the ibrun above it controls it.
type localAgent struct {
	console.Streams
	task    *protocol.Task
	verbose bool
	pid     int
	control *os.File
	mu      sync.Mutex // held while an order is written
	orders  *json.Encoder
	started bool // the agent was given its task
	events  <-chan *protocol.Event
	reaper  *proctree.Reaper
	group   *proctree.Cgroup // the agent's control group, to clean up if the agent cannot
	perfMem *perfmem.Memory  // where ranks record; nil: it could not be allocated
	monitor *monitor.Monitor
	done    bool // the agent has sent EventDone
}

// startLocalAgent starts an agent, which waits for its task: see start. The caller must call cleanUp to end it, and then close.
// What ranks have recorded can be read until close.
func startLocalAgent(t *protocol.Task, verbose bool, s console.Streams) (*localAgent, error) {
	if err := proctree.BecomeSubreaper(); err != nil {
		return nil, err
	}
	record, noPages := perfmem.New(len(t.Ranks))
	t.Pages = noPages == nil
	pid, control, err := startAgent(s, record)
	if err != nil {
		return nil, errors.Join(err, record.Close())
	}
	l := &localAgent{Streams: s, task: t, verbose: verbose, pid: pid, control: control, orders: json.NewEncoder(control),
		events: readEvents(control), reaper: proctree.NewReaper(pid), perfMem: record}
	l.monitor = monitor.New(t, record, s, l.order)
	if noPages != nil {
		l.Printf("the ranks cannot be monitored: %v", noPages)
	}
	return l, nil
}

// close releases what is still needed after cleanUp.
func (l *localAgent) close() {
	if err := l.perfMem.Close(); err != nil {
		l.Printf("%v", err)
	}
}

// startAgent executes ibrun again as agent. The agent gets a session of its own, so keys like Ctrl-C send signals only to
// ibrun.
func startAgent(s console.Streams, record *perfmem.Memory) (pid int, control *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	defer unix.Close(fds[1])
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"ibrun", "agent"}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{s.In.Fd(), s.Out.Fd(), s.Err.Fd(), uintptr(fds[1]), perfmem.AgentFD: record.FD()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(fds[0])
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	return pid, os.NewFile(uintptr(fds[0]), "agent"), nil
}

// readEvents returns a channel of the events that the agent sends. The channel is closed at the end of the stream.
func readEvents(control io.Reader) <-chan *protocol.Event {
	events := make(chan *protocol.Event)
	go func() {
		defer close(events)
		in := json.NewDecoder(control)
		for {
			e := new(protocol.Event)
			if in.Decode(e) != nil {
				return
			}
			events <- e
		}
	}()
	return events
}

// start sends the task to the agent.
func (l *localAgent) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	_ = l.orders.Encode(&protocol.Order{Start: l.task})
}

// order sends an order to the agent. Before start it does nothing: there is no rank yet that the order could concern. It
// ignores errors: if the agent has died, readEvents notices. Any goroutine may call it.
func (l *localAgent) order(o *protocol.Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		_ = l.orders.Encode(o)
	}
}

// handleEvent processes the part of an event that concerns this node. It reports whether the event needs no further processing.
func (l *localAgent) handleEvent(e *protocol.Event) (all bool) {
	switch e.Kind {
	case protocol.EventNote:
		if e.Rank >= 0 {
			l.Printf("rank %d: %s", e.Rank, e.Text)
		} else {
			l.Printf("%s", e.Text)
		}
		return true
	case protocol.EventStarted:
		if e.Cgroup != "" {
			l.group = &proctree.Cgroup{Dir: e.Cgroup}
		}
		l.monitor.SetPIDs(e.PIDs)
		l.describe(e.PIDs)
	case protocol.EventStacks:
		l.monitor.DeliverStacks(e.Rank, e.Text)
		return true
	case protocol.EventExit:
		l.monitor.MarkExited(e.Rank)
	case protocol.EventDone:
		l.done = true
		for _, pid := range e.PIDs {
			l.Printf("process %d does not exit after SIGKILL; it is stuck in the kernel", pid)
		}
	}
	return false
}

// describe prints where the ranks run.
func (l *localAgent) describe(pids []int) {
	if !l.verbose {
		return
	}
	for i, pid := range pids {
		where := "not bound"
		if pus := l.task.Ranks[i].PUs; len(pus) > 0 {
			where = "on cores " + hw.FormatList(pus)
		}
		l.Printf("rank %d runs on %s as process %d, %s", l.task.Ranks[i].Rank, l.task.Host, pid, where)
	}
}

// stopSelf stops this process until SIGCONT. It uses SIGSTOP, as the kernel ignores SIGTSTP for processes in an orphaned
// process group, which no shell controls. It may return before the process has stopped.
func (l *localAgent) stopSelf() {
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		l.Printf("stop: %v", err)
	}
}

// cleanUp waits for the agent to exit, and kills all processes of the job that are left on this node. It may be called again.
func (l *localAgent) cleanUp() {
	defer l.control.Close()
	if l.done {
		select {
		case <-l.reaper.Gone:
			return
		case <-time.After(agentTimeout):
		}
	}
	for _, pid := range proctree.KillDescendants(l.reaper.Gone, l.group) {
		l.Printf("process %d does not exit after SIGKILL; it is stuck in the kernel", pid)
	}
	if err := l.group.Remove(); err != nil {
		l.Printf("%v", err)
	}
}

// exitReason describes how the agent exited before it was done. It must be called after cleanUp.
func (l *localAgent) exitReason() string {
	why := "died"
	if ws := l.reaper.Wait(l.pid); ws.Signaled() {
		why = fmt.Sprintf("was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	return fmt.Sprintf("the agent on %s (pid %d) %s, and the ranks with it", l.task.Host, l.pid, why)
}
