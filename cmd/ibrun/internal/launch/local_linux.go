package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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

// viewSignal asks for the hang view.
const hangViewSignal = unix.SIGUSR1

// forwardedSignals are those that are passed on to the ranks and change nothing else.
func forwardedSignals() []os.Signal {
	return []os.Signal{unix.SIGQUIT, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT}
}

// localAgent is the agent of this node as the ibrun above it sees it.
type localAgent struct {
	Streams
	task    *task
	verbose bool
	pid     int
	control *os.File
	mu      sync.Mutex // held by who gives an order
	orders  *json.Encoder
	started bool // the agent has its task
	events  <-chan *event
	reaper  *reaper
	group   *cgroup       // the agent's, to clean up if it cannot
	perfMem *perfMemory   // what the ranks record; nil: there was no memory for it
	exited  []atomic.Bool // the ranks that are no more
	monitor *monitor
	done    bool // the agent has said its last word
}

// startLocalAgent starts an agent, to which start gives the task. It is ended by cleanUp, and what its ranks recorded can be read
// until close.
func startLocalAgent(t *task, verbose bool, s Streams) (*localAgent, error) {
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	record, noPages := newPerfMemory(len(t.Ranks))
	t.Pages = noPages == nil
	pid, control, err := startAgent(s, record)
	if err != nil {
		return nil, errors.Join(err, record.close())
	}
	l := &localAgent{Streams: s, task: t, verbose: verbose, pid: pid, control: control, orders: json.NewEncoder(control),
		events: readEvents(control), reaper: newReaper(pid), perfMem: record,
		exited: make([]atomic.Bool, len(t.Ranks))}
	l.monitor = newMonitor(l)
	if noPages != nil {
		l.Say("nobody can look on at what the ranks do: %v", noPages)
	}
	return l, nil
}

// close gives back what was kept after cleanUp.
func (l *localAgent) close() {
	if err := l.perfMem.close(); err != nil {
		l.Say("%v", err)
	}
}

// startAgent executes ibrun again as agent, in a session of its own: keys pressed at the terminal reach only ibrun.
func startAgent(s Streams, record *perfMemory) (pid int, control *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	defer unix.Close(fds[1])
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"ibrun", "agent"}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{s.In.Fd(), s.Out.Fd(), s.Err.Fd(), uintptr(fds[1]), agentPerfFD: record.fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(fds[0])
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	return pid, os.NewFile(uintptr(fds[0]), "agent"), nil
}

// readEvents turns what the agent says into a channel that is closed when it has said all.
func readEvents(control io.Reader) <-chan *event {
	events := make(chan *event)
	go func() {
		defer close(events)
		in := json.NewDecoder(control)
		for {
			e := new(event)
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
	_ = l.orders.Encode(&order{Start: l.task})
}

// order tells the agent something, unless it has not been given its task: then there is no rank that it could be about. Any
// goroutine may call it. That the agent has died is noticed where its events are read.
func (l *localAgent) order(o *order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		_ = l.orders.Encode(o)
	}
}

// handleEvent does what an event asks for on its node. It reports whether that is all.
func (l *localAgent) handleEvent(e *event) (all bool) {
	switch e.Kind {
	case evNote:
		if e.Rank >= 0 {
			l.Say("rank %d: %s", e.Rank, e.Text)
		} else {
			l.Say("%s", e.Text)
		}
		return true
	case evStarted:
		if e.Cgroup != "" {
			l.group = &cgroup{dir: e.Cgroup}
		}
		l.monitor.pids.Store(&e.PIDs)
		l.describe(e.PIDs)
	case evStacks:
		l.monitor.deliverStacks(e)
		return true
	case evExit:
		l.markExited(e.Rank)
	case evDone:
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
		case <-l.reaper.gone:
			return
		case <-time.After(agentTimeout):
		}
	}
	for _, pid := range killDescendants(l.reaper.gone, l.group) {
		l.Say("process %d does not die; the kernel holds it", pid)
	}
	if err := l.group.remove(); err != nil {
		l.Say("%v", err)
	}
}

// exitReason says how the agent died before it was done. It is called after cleanUp.
func (l *localAgent) exitReason() string {
	why := "died"
	if ws := l.reaper.wait(l.pid); ws.Signaled() {
		why = fmt.Sprintf("was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	return fmt.Sprintf("the agent on %s (pid %d) %s, and the ranks with it", l.task.Host, l.pid, why)
}
