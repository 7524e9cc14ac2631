package launch

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/internal/ranklink"
	"golang.org/x/sys/unix"
)

// rank is one rank as its agent sees it.
type rank struct {
	task   *rankTask
	pid    int
	pidfd  int
	voice  *voice
	pmi    *os.File      // the agent's end
	served chan struct{} // closed when all that came through pmi has been answered
	heard  chan struct{} // closed when all that came through link has been passed on
	dies   chan struct{} // closed when it is dead, before the last of its words are heard
	told   chan struct{} // closed when ibrun has been told of that
	link   *ranklink.Link
	listen atomic.Bool // it reads what comes by link
	asked  atomic.Bool // for its stacks, and has not answered
}

// startAll starts the ranks one by one and says so, or which one cannot be started. The calling thread is locked
// and lives as long as the agent: the kernel kills the ranks when it ends, and it lends them its PUs and memory policy.
func (a *agent) startAll() {
	defer a.allStarted()
	defer a.takeBack()
	for i := range a.task.Ranks {
		if a.closing.Load() {
			return
		}
		if err := a.start(i); err != nil {
			a.send(&event{Kind: evNotStarted, Rank: a.task.Ranks[i].Rank, Code: codeOf(err), Text: "cannot be started: " + err.Error()})
			return
		}
	}
}

// allStarted tells ibrun which ranks there are, and begins to take in their deaths.
func (a *agent) allStarted() {
	started := event{Kind: evStarted}
	for _, r := range a.ranks {
		started.Ranks, started.PIDs = append(started.Ranks, r.task.Rank), append(started.PIDs, r.pid)
	}
	if a.group != nil {
		started.Cgroup = a.group.dir
	}
	a.send(&started)
	a.reaper = newReaper(started.PIDs...)
	close(a.started)
}

// start starts one rank and what serves it.
func (a *agent) start(i int) error {
	t := &a.task.Ranks[i]
	r := &rank{task: t, voice: newVoice(t.Rank, a.task.Label), served: make(chan struct{}),
		heard: make(chan struct{}), dies: make(chan struct{}), told: make(chan struct{})}
	w, err := openWires()
	if err != nil {
		return err
	}
	defer w.closeTheirs()
	stdout, stderr, err := a.sinks(t.Rank)
	if err == nil {
		err = w.link.Send(ranklink.KindHello, a.hello(i))
	}
	if err == nil {
		err = a.exec(i, r, w)
	}
	if err != nil {
		w.closeOurs()
		return err
	}
	if err := a.deaths.add(i, r.pid, r.pidfd, w.pmi); err != nil {
		w.closeOurs()
		return err
	}
	r.pmi, r.link = w.pmi, w.link
	a.ranks = append(a.ranks, r)
	a.out.pump(&source{voice: r.voice, pipe: w.stdout, sink: stdout}, a.outputFailed(t.Rank))
	a.out.pump(&source{voice: r.voice, trace: true, pipe: w.stderr, sink: stderr}, a.outputFailed(t.Rank))
	go a.servePMI(r)
	go a.readLink(r)
	return nil
}

// exec starts the process, bound to its PUs and memory from its first instruction on.
func (a *agent) exec(i int, r *rank, w *wires) (err error) {
	if err := a.lend(r.task); err != nil {
		return err
	}
	stdin := a.null
	if r.task.Rank == 0 {
		stdin = os.Stdin
	}
	attr := &syscall.ProcAttr{
		Dir: a.task.Programs[r.task.Program].Dir,
		Env: a.task.rankEnv(i),
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &r.pidfd},
	}
	attr.Files = []uintptr{stdin.Fd(), w.theirs[0].Fd(), w.theirs[1].Fd(), rankLink: w.theirs[3].Fd(), rankPMI: w.theirs[2].Fd(),
		rankPages: a.pages.fd()}
	for fd := rankLink + 1; fd < rankPMI; fd++ {
		attr.Files[fd] = ^uintptr(0) // closed
	}
	if a.group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, a.group.fd
	}
	r.pid, err = syscall.ForkExec(r.task.Path, r.task.Args, attr)
	if err != nil && a.group != nil && i == 0 {
		// It may be the control group that the kernel refuses, which only a process that starts in it finds out.
		if err := a.group.remove(); err != nil {
			return err
		}
		a.group, attr.Sys.UseCgroupFD = nil, false
		r.pid, err = syscall.ForkExec(r.task.Path, r.task.Args, attr)
	}
	if err != nil {
		return fail(execCode(err), "%s: %w", r.task.Path, err)
	}
	if r.pidfd < 0 {
		return fmt.Errorf("watch the process: ibrun needs Linux 5.4 or later: %w", errors.ErrUnsupported)
	}
	return nil
}

// execCode is the exit code for a program that was there and executable when ibrun looked, and still cannot be started.
func execCode(err error) int {
	switch {
	case errors.Is(err, unix.ENOENT):
		return codeNotFound // the interpreter that its first line names
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EPERM):
		return codeNotExecutable
	}
	return codeFailed
}

// hello is what a rank is told about its place.
func (a *agent) hello(i int) *ranklink.Hello {
	t := a.task
	h := &ranklink.Hello{
		JobID: t.JobID, Secret: t.Secret, Rank: t.Ranks[i].Rank, Size: t.Size, Node: t.Node, Nodes: t.Nodes, NodeName: t.Host,
		NodeRanks: make([]int, len(t.Ranks)), LocalRank: i, AgentPID: os.Getpid(), Cores: t.Ranks[i].PUs,
		Crowded: t.Ranks[i].Crowded, Devices: t.Ranks[i].Devices,
		Page: a.pages.of(i), Psets: t.Psets,
	}
	if t.Trace {
		h.Trace = a.pages.traceOf(i)
	}
	if t.Profile {
		h.Profile = a.pages.profileOf(i)
	}
	for local := range t.Ranks {
		h.NodeRanks[local] = t.Ranks[local].Rank
		h.Homes = append(h.Homes, t.Ranks[local].Home)
	}
	return h
}

// sinks returns where a rank's standard output and standard error go.
func (a *agent) sinks(rank int) (stdout, stderr *sink, err error) {
	if a.task.Output == "" {
		return a.out.stdout, a.out.stderr, nil
	}
	file, err := a.out.toFile(fileName(a.task.Output, rank, a.task.Host))
	if err != nil {
		return nil, nil, fmt.Errorf("file for its output: %w", err)
	}
	return file, file, nil
}

// wires are the agent's ends of what it shares with a rank, and the rank's ends in the same order.
type wires struct {
	stdout, stderr, pmi *os.File
	link                *ranklink.Link
	theirs              []*os.File
}

func openWires() (w *wires, err error) {
	w = &wires{}
	defer func() {
		if err != nil {
			w.closeOurs()
			w.closeTheirs()
			w = nil
		}
	}()
	for _, ours := range []**os.File{&w.stdout, &w.stderr} {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return w, fmt.Errorf("open pipe for output: %w", err)
		}
		if err := w.add(ours, fds[0], fds[1]); err != nil {
			return w, err
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return w, fmt.Errorf("open sockets for PMI: %w", err)
	}
	if err := w.add(&w.pmi, fds[0], fds[1]); err != nil {
		return w, err
	}
	link, theirs, err := ranklink.Pair()
	if err != nil {
		return w, err
	}
	w.link, w.theirs = link, append(w.theirs, theirs)
	return w, nil
}

// add takes over two descriptors. Only the agent's is made non-blocking, for the runtime's poller.
func (w *wires) add(ours **os.File, mine, theirs int) error {
	errNonblock := unix.SetNonblock(mine, true)
	*ours = os.NewFile(uintptr(mine), "rank")
	w.theirs = append(w.theirs, os.NewFile(uintptr(theirs), "rank's end"))
	if errNonblock != nil {
		return fmt.Errorf("make descriptor %d non-blocking: %w", mine, errNonblock)
	}
	return nil
}

func (w *wires) closeTheirs() {
	for _, f := range w.theirs {
		f.Close()
	}
}

func (w *wires) closeOurs() {
	for _, f := range []*os.File{w.stdout, w.stderr, w.pmi} {
		if f != nil {
			f.Close()
		}
	}
	if w.link != nil {
		w.link.Close()
	}
}
