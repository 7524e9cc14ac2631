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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
	"golang.org/x/sys/unix"
)

const (
	// grace is how long ranks have between SIGTERM and SIGKILL once the job has failed.
	gracePeriod = 50 * time.Millisecond
	// agentPatience is how long the agent has to end after it was told to kill, or after it said that it was done.
	agentTimeout = time.Second
	// viewPatience is how long --timeout waits until the view of what the ranks do has been made, and somebody has read it.
	hangViewTimeout = 3 * time.Second
)

// localAgent is the agent of this node as the ibrun above it sees it.
type localAgent struct {
	console.Streams
	task    *protocol.Task
	verbose bool
	pid     int
	control *os.File
	mu      sync.Mutex // held by who gives an order
	orders  *json.Encoder
	started bool // the agent has its task
	events  <-chan *protocol.Event
	reaper  *proctree.Reaper
	group   *proctree.Cgroup // the agent's, to clean up if it cannot
	perfMem *perfmem.Memory  // what the ranks record; nil: there was no memory for it
	monitor *monitor.Monitor
	done    bool // the agent has said its last word
}

// startLocalAgent starts an agent, to which start gives the task. It is ended by cleanUp, and what its ranks recorded can be read
// until close.
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
		l.Say("nobody can look on at what the ranks do: %v", noPages)
	}
	return l, nil
}

// close gives back what was kept after cleanUp.
func (l *localAgent) close() {
	if err := l.perfMem.Close(); err != nil {
		l.Say("%v", err)
	}
}

// startAgent executes ibrun again as agent, in a session of its own: keys pressed at the terminal reach only ibrun.
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

// readEvents turns what the agent says into a channel that is closed when it has said all.
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

// start gives the agent its task.
func (l *localAgent) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
	_ = l.orders.Encode(&protocol.Order{Start: l.task})
}

// order tells the agent something, unless it has not been given its task: then there is no rank that it could be about. Any
// goroutine may call it. That the agent has died is noticed where its events are read.
func (l *localAgent) order(o *protocol.Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		_ = l.orders.Encode(o)
	}
}

// handleEvent does what an event asks for on its node. It reports whether that is all.
func (l *localAgent) handleEvent(e *protocol.Event) (all bool) {
	switch e.Kind {
	case protocol.EventNote:
		if e.Rank >= 0 {
			l.Say("rank %d: %s", e.Rank, e.Text)
		} else {
			l.Say("%s", e.Text)
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
			l.Say("process %d does not die; the kernel holds it", pid)
		}
	}
	return false
}

// describe says where the ranks run.
func (l *localAgent) describe(pids []int) {
	if !l.verbose {
		return
	}
	for i, pid := range pids {
		where := "not bound"
		if pus := l.task.Ranks[i].PUs; len(pus) > 0 {
			where = "on cores " + hw.FormatList(pus)
		}
		l.Say("rank %d runs on %s as process %d, %s", l.task.Ranks[i].Rank, l.task.Host, pid, where)
	}
}

// stopSelf stops this process, which SIGCONT tells to continue. The kernel does not let SIGTSTP stop processes that no
// shell minds. It returns before or after that.
func (l *localAgent) stopSelf() {
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		l.Say("stop: %v", err)
	}
}

// cleanUp waits for the agent to end and sees to it that nothing of the job is left on this node. It may be repeated.
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
		l.Say("process %d does not die; the kernel holds it", pid)
	}
	if err := l.group.Remove(); err != nil {
		l.Say("%v", err)
	}
}

// exitReason says how the agent died before it was done. It is called after cleanUp.
func (l *localAgent) exitReason() string {
	why := "died"
	if ws := l.reaper.Wait(l.pid); ws.Signaled() {
		why = fmt.Sprintf("was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	return fmt.Sprintf("the agent on %s (pid %d) %s, and the ranks with it", l.task.Host, l.pid, why)
}
