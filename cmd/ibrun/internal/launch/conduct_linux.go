package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/hw"
	"golang.org/x/sys/unix"
)

const (
	// grace is how long ranks have between SIGTERM and SIGKILL once the job has failed.
	grace = 50 * time.Millisecond
	// agentPatience is how long the agent has to end after it was told to kill, or after it said that it was done.
	agentPatience = time.Second
)

func supported() error { return nil }

// passSignals are those that are passed on to the ranks and change nothing else.
func passSignals() []os.Signal {
	return []os.Signal{unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT}
}

// conductor watches one job.
type conductor struct {
	Streams
	o      *cli.Options
	t      *task
	judge  *judge
	orders *json.Encoder
	agent  int // pid

	fault *fault // the first
	asked bool   // the user wants the job to end
	ended bool   // the agent was told to end the job
	hard  <-chan time.Time
	group *cgroup // the agent's, to clean up if it cannot
	tail  string
	done  bool // the agent has said its last word
}

// conduct has the ranks started and watches them until nothing of the job is left.
func conduct(t *task, o *cli.Options, s Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	notify(signals, append(askSignals(), passSignals()...))
	defer signal.Stop(signals)
	if err := becomeSubreaper(); err != nil {
		return 0, err
	}
	agent, control, err := startAgent(s)
	if err != nil {
		return 0, err
	}
	defer control.Close()
	began := time.Now()
	reaper := newReaper(agent)
	c := &conductor{Streams: s, o: o, t: t, judge: newJudge(len(t.Ranks)), orders: json.NewEncoder(control), agent: agent}
	c.order(order{Start: t})
	c.watch(listen(control), signals)
	c.cleanUp(reaper)
	if c.o.Verbose {
		c.say("the job took %v", time.Since(began).Round(time.Millisecond))
	}
	return c.report(), nil
}

// startAgent executes ibrun again as agent, in a session of its own: keys pressed at the terminal reach only ibrun.
func startAgent(s Streams) (pid int, control *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	defer unix.Close(fds[1])
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"ibrun", "agent"}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{s.In.Fd(), s.Out.Fd(), s.Err.Fd(), uintptr(fds[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		unix.Close(fds[0])
		return 0, nil, fmt.Errorf("start agent: %w", err)
	}
	return pid, os.NewFile(uintptr(fds[0]), "agent"), nil
}

// listen turns what the agent says into a channel that is closed when it has said all.
func listen(control io.Reader) <-chan *event {
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

// order tells the agent something. That it has died is noticed where its events are read.
func (c *conductor) order(o order) { _ = c.orders.Encode(o) }

// watch returns when the agent has done its work or has died.
func (c *conductor) watch(events <-chan *event, signals <-chan os.Signal) {
	var timeout <-chan time.Time
	if c.o.Timeout > 0 {
		timeout = time.After(c.o.Timeout)
	}
	for !c.done {
		select {
		case e, alive := <-events:
			if !alive {
				return
			}
			c.hear(e)
		case sig := <-signals:
			c.signal(sig.(syscall.Signal))
		case <-timeout:
			c.blame(&fault{-1, codeTimeout, fmt.Sprintf("the job did not end within %v (--timeout); ranks %s on %s were running",
				c.o.Timeout, hw.FormatList(c.judge.running()), c.t.Host)})
			c.end(grace)
		case <-c.hard:
			return // cleanUp kills the agent too
		}
	}
}

// hear takes in what the agent says.
func (c *conductor) hear(e *event) {
	switch e.Kind {
	case evNote:
		if e.Rank >= 0 {
			c.say("rank %d: %s", e.Rank, e.Text)
		} else {
			c.say("%s", e.Text)
		}
	case evStarted:
		if e.Cgroup != "" {
			c.group = &cgroup{dir: e.Cgroup}
		}
		c.describe(e.PIDs)
	case evDone:
		c.done, c.tail = true, e.Text
		for _, pid := range e.PIDs {
			c.say("process %d does not die; the kernel holds it", pid)
		}
	}
	if f := c.judge.hear(e); f != nil {
		c.blame(f)
		if !c.asked {
			c.end(grace)
		}
	}
	if c.judge.allLeft() {
		c.end(grace)
	}
}

// describe says where the ranks run.
func (c *conductor) describe(pids []int) {
	if !c.o.Verbose {
		return
	}
	for i, pid := range pids {
		where := "not bound"
		if pus := c.t.Ranks[i].PUs; len(pus) > 0 {
			where = "on cores " + hw.FormatList(pus)
		}
		c.say("rank %d runs on %s as process %d, %s", i, c.t.Host, pid, where)
	}
}

// blame keeps the first fault: later ones mostly follow from it.
func (c *conductor) blame(f *fault) {
	if c.fault == nil {
		c.fault = f
	}
}

// end has the agent end the job, with that time between SIGTERM and SIGKILL.
func (c *conductor) end(grace time.Duration) {
	if c.ended && grace > 0 {
		return
	}
	c.ended = true
	tail := -1
	if c.fault != nil {
		tail = c.fault.rank
	}
	c.order(order{End: &ending{Grace: grace, Tail: tail}})
}

// signal does what a signal to ibrun means: the first that asks for the end is passed on, the second kills.
func (c *conductor) signal(sig syscall.Signal) {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if !c.asked && !c.ended {
			c.asked, c.judge.asked = true, true
			c.say("asking the ranks to end (%s); once more kills them", unix.SignalName(sig))
			break
		}
		why := fmt.Sprintf("the ranks did not end when asked, and were killed (%s)", unix.SignalName(sig))
		c.blame(&fault{-1, codeSignal + int(sig), why})
		c.end(0)
		c.hard = time.After(agentPatience)
		return
	case unix.SIGTSTP: // which the kernel does not let stop processes that no shell minds
		c.order(order{Signal: int(unix.SIGSTOP)})
		if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
			c.say("stop: %v", err)
		}
		return
	}
	c.order(order{Signal: int(sig)})
}

// cleanUp waits for the agent to end and sees to it that nothing of the job is left.
func (c *conductor) cleanUp(r *reaper) {
	if c.done {
		select {
		case <-r.gone:
			return
		case <-time.After(agentPatience):
		}
	}
	for _, pid := range killDescendants(r.gone, c.group) {
		c.say("process %d does not die; the kernel holds it", pid)
	}
	if err := c.group.remove(); err != nil {
		c.say("%v", err)
	}
	if c.done || c.hard != nil {
		return
	}
	why := "died"
	if ws := r.wait(c.agent); ws.Signaled() {
		why = fmt.Sprintf("was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	}
	c.blame(&fault{-1, codeFailed, fmt.Sprintf("the agent on %s (pid %d) %s, and the ranks with it", c.t.Host, c.agent, why)})
}

// report says last of all why the job failed, and returns the exit code.
func (c *conductor) report() int {
	f := c.fault
	if f == nil {
		return 0
	}
	if f.rank < 0 {
		c.say("%s", f.why)
		return f.code
	}
	if c.tail != "" && !c.asked {
		c.say("the last output of rank %d was", f.rank)
		for line := range strings.Lines(c.tail) {
			c.say("  | %s", strings.TrimSuffix(line, "\n"))
		}
	}
	who := fmt.Sprintf("rank %d on %s", f.rank, c.t.Host)
	if pid := c.judge.ranks[f.rank].pid; pid != 0 {
		who += fmt.Sprintf(" (pid %d)", pid)
	}
	c.say("%s %s", who, f.why)
	return f.code
}
