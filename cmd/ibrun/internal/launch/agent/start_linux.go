package agent

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
	"golang.org/x/sys/unix"
)

// rank is one rank as its agent sees it.
type rank struct {
	task            *protocol.RankTask
	pid             int
	pidfd           int
	output          *rankOutput
	pmi             *os.File      // the agent's end
	pmiDone         chan struct{} // closed when all that came through pmi has been answered
	linkDone        chan struct{} // closed when all that came through link has been passed on
	exited          chan struct{} // closed when it is dead, before the last of its words are heard
	reported        chan struct{} // closed when ibrun has been told of that
	link            *ranklink.Link
	linkReady       atomic.Bool // it reads what comes by link
	stacksRequested atomic.Bool // for its stacks, and has not answered
}

// startAll starts the ranks one by one and says so, or which one cannot be started. The calling thread is locked
// and lives as long as the agent: the kernel kills the ranks when it ends, and it lends them its PUs and memory policy.
func (a *agent) startAll() {
	defer a.finishStarting()
	defer a.unbindThread()
	for i := range a.task.Ranks {
		if a.closing.Load() {
			return
		}
		if err := a.start(i); err != nil {
			a.send(&protocol.Event{Kind: protocol.EventNotStarted, Rank: a.task.Ranks[i].Rank, Code: exitcode.Of(err),
				Text: "cannot be started: " + err.Error()})
			return
		}
	}
}

// finishStarting tells ibrun which ranks there are, and begins to take in their deaths.
func (a *agent) finishStarting() {
	started := protocol.Event{Kind: protocol.EventStarted}
	for _, r := range a.ranks {
		started.Ranks, started.PIDs = append(started.Ranks, r.task.Rank), append(started.PIDs, r.pid)
	}
	if a.group != nil {
		started.Cgroup = a.group.Dir
	}
	a.send(&started)
	a.reaper = proctree.NewReaper(started.PIDs...)
	close(a.started)
}

// start starts one rank and what serves it.
func (a *agent) start(i int) error {
	t := &a.task.Ranks[i]
	r := &rank{task: t, output: newRankOutput(t.Rank, a.task.Label), pmiDone: make(chan struct{}),
		linkDone: make(chan struct{}), exited: make(chan struct{}), reported: make(chan struct{})}
	w, err := openPipes()
	if err != nil {
		return err
	}
	defer w.closeRankEnds()
	stdout, stderr, err := a.outputWriters(t.Rank)
	if err == nil {
		err = w.link.Send(ranklink.KindHello, a.rankHello(i))
	}
	if err == nil {
		err = a.exec(i, r, w)
	}
	if err != nil {
		w.closeAgentEnds()
		return err
	}
	if err := a.exits.add(i, r.pid, r.pidfd, w.pmi); err != nil {
		w.closeAgentEnds()
		return err
	}
	r.pmi, r.link = w.pmi, w.link
	a.ranks = append(a.ranks, r)
	a.out.forward(&source{output: r.output, pipe: w.stdout, writer: stdout}, a.onOutputError(t.Rank))
	a.out.forward(&source{output: r.output, isStderr: true, pipe: w.stderr, writer: stderr}, a.onOutputError(t.Rank))
	go a.servePMI(r)
	go a.readLink(r)
	return nil
}

// exec starts the process, bound to its PUs and memory from its first instruction on.
func (a *agent) exec(i int, r *rank, w *rankPipes) (err error) {
	if err := a.bindThread(r.task); err != nil {
		return err
	}
	stdin := a.devNull
	if r.task.Rank == 0 {
		stdin = os.Stdin
	}
	attr := &syscall.ProcAttr{
		Dir: a.task.Programs[r.task.Program].Dir,
		Env: RankEnv(a.task, i),
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &r.pidfd},
	}
	attr.Files = []uintptr{stdin.Fd(), w.rankEnds[0].Fd(), w.rankEnds[1].Fd(), linkFD: w.rankEnds[3].Fd(),
		pmiFD:          w.rankEnds[2].Fd(),
		perfmem.RankFD: a.perfMem.FD()}
	for fd := linkFD + 1; fd < pmiFD; fd++ {
		attr.Files[fd] = ^uintptr(0) // closed
	}
	if a.group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, a.group.FD
	}
	r.pid, err = syscall.ForkExec(r.task.Path, r.task.Args, attr)
	if err != nil && a.group != nil && i == 0 {
		// It may be the control group that the kernel refuses, which only a process that starts in it finds out.
		if err := a.group.Remove(); err != nil {
			return err
		}
		a.group, attr.Sys.UseCgroupFD = nil, false
		r.pid, err = syscall.ForkExec(r.task.Path, r.task.Args, attr)
	}
	if err != nil {
		return exitcode.Errorf(execErrorCode(err), "%s: %w", r.task.Path, err)
	}
	if r.pidfd < 0 {
		return fmt.Errorf("watch the process: ibrun needs Linux 5.4 or later: %w", errors.ErrUnsupported)
	}
	return nil
}

// execErrorCode is the exit code for a program that was there and executable when ibrun looked, and still cannot be started.
func execErrorCode(err error) int {
	switch {
	case errors.Is(err, unix.ENOENT):
		return exitcode.NotFound // the interpreter that its first line names
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EPERM):
		return exitcode.NotExecutable
	}
	return exitcode.Failed
}

// rankHello is what a rank is told about its place.
func (a *agent) rankHello(i int) *ranklink.Hello {
	t := a.task
	h := &ranklink.Hello{
		JobID: t.JobID, Secret: t.Secret, Rank: t.Ranks[i].Rank, Size: t.Size, Node: t.Node, Nodes: t.Nodes, NodeName: t.Host,
		NodeRanks: make([]int, len(t.Ranks)), LocalRank: i, AgentPID: os.Getpid(), Cores: t.Ranks[i].PUs,
		Crowded: t.Ranks[i].Crowded, Devices: t.Ranks[i].Devices,
		Page: a.perfMem.PageOf(i), Psets: t.Psets,
	}
	if t.Trace {
		h.Trace = a.perfMem.TraceOf(i)
	}
	if t.Profile {
		h.Profile = a.perfMem.ProfileOf(i)
	}
	for local := range t.Ranks {
		h.NodeRanks[local] = t.Ranks[local].Rank
		h.Homes = append(h.Homes, t.Ranks[local].Home)
	}
	return h
}

// outputWriters returns where a rank's standard output and standard error go.
func (a *agent) outputWriters(rank int) (stdout, stderr *lineWriter, err error) {
	if a.task.Output == "" {
		return a.out.stdout, a.out.stderr, nil
	}
	file, err := a.out.fileWriter(expandFileName(a.task.Output, rank, a.task.Host))
	if err != nil {
		return nil, nil, fmt.Errorf("file for its output: %w", err)
	}
	return file, file, nil
}
