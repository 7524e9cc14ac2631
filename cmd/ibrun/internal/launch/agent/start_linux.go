package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/output"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// rank is one rank as its agent manages it.
type rank struct {
	task            *protocol.RankTask
	pid             int
	pidfd           int
	output          *output.Origin
	pmi             *os.File      // the agent's end
	pmiDone         chan struct{} // closed when all PMI requests have been answered
	linkDone        chan struct{} // closed when all messages of link have been processed
	exited          chan struct{} // closed when the process has exited; its last messages may still be unprocessed
	reported        chan struct{} // closed when the exit was reported to ibrun
	link            *ranklink.Link
	linkReady       atomic.Bool // the rank reads messages from link
	stacksRequested atomic.Bool // a request for its stacks is unanswered
	notes           int         // that it has sent and were to be shown; used by readLink only
}

// startAll starts the ranks one after the other and reports them, or the first one that cannot be started. The calling thread
// must be locked and live as long as the agent, for two reasons: the kernel kills the ranks when the thread that started them
// exits (PR_SET_PDEATHSIG), and ranks inherit its PUs and memory policy.
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

// finishStarting reports the ranks that were started, and starts to reap them.
func (a *agent) finishStarting() {
	started := protocol.Event{Kind: protocol.EventStarted}
	for _, r := range a.ranks {
		started.Ranks, started.PIDs = append(started.Ranks, r.task.Rank), append(started.PIDs, r.pid)
	}
	a.send(&started)
	a.reaper = proctree.NewReaper(started.PIDs...)
	close(a.started)
}

// start starts one rank and the goroutines that serve it.
func (a *agent) start(i int) error {
	t := &a.task.Ranks[i]
	r := &rank{task: t, output: output.NewRank(t.Rank, a.task.Host, a.task.Label), pmiDone: make(chan struct{}),
		linkDone: make(chan struct{}), exited: make(chan struct{}), reported: make(chan struct{})}
	w, err := openPipes()
	if err != nil {
		return err
	}
	defer w.closeRankEnds()
	stdout, stderr, err := a.outputWriters(t.Rank)
	if err == nil {
		err = w.link.Send(ranklink.KindRankInfo, a.rankInfo(i))
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
	a.out.Forward(&output.Source{Origin: r.output, Pipe: w.stdout, Writer: stdout}, a.onOutputError(t.Rank))
	a.out.Forward(&output.Source{Origin: r.output, IsStderr: true, Pipe: w.stderr, Writer: stderr}, a.onOutputError(t.Rank))
	go a.servePMI(r)
	go a.readLink(r)
	return nil
}

// exec starts the process, bound to its PUs and memory from its first instruction.
func (a *agent) exec(i int, r *rank, w *rankPipes) (err error) {
	if err := a.bindThread(r.task); err != nil {
		return err
	}
	stdin := a.devNull
	if r.task.Rank == 0 {
		stdin = os.Stdin
	}
	attr := &syscall.ProcAttr{
		Dir: string(a.task.Programs[r.task.Program].Dir),
		Env: RankEnv(a.task, i, a.maxFiles),
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &r.pidfd},
	}
	fds := newRankFDs(a.maxFiles)
	attr.Files = slices.Repeat([]uintptr{^uintptr(0)}, fds.record+1) // closed
	for fd, f := range []*os.File{stdin, w.rankEnds[0], w.rankEnds[1]} {
		attr.Files[fd] = f.Fd()
	}
	attr.Files[fds.link], attr.Files[fds.pmi] = w.rankEnds[3].Fd(), w.rankEnds[2].Fd()
	attr.Files[fds.record] = a.perfMem.FD()
	if a.group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, a.group.FD
	}
	r.pid, err = syscall.ForkExec(string(r.task.Path), r.task.Args, attr)
	if err != nil && a.group != nil && i == 0 {
		// The kernel may have refused the control group. That shows only when a process is started in it.
		if err := a.group.Remove(); err != nil {
			return err
		}
		a.group, attr.Sys.UseCgroupFD = nil, false
		r.pid, err = syscall.ForkExec(string(r.task.Path), r.task.Args, attr)
	}
	if err != nil {
		return exitcode.Errorf(execErrorCode(err), "%s: %w", r.task.Path, explainFork(err))
	}
	if r.pidfd < 0 {
		return fmt.Errorf("watch the process: ibrun needs Linux 5.4 or later: %w", errors.ErrUnsupported)
	}
	return nil
}

// execErrorCode returns the exit code for a program that cannot be started, although it was found and executable before.
func execErrorCode(err error) int {
	switch {
	case errors.Is(err, unix.ENOENT):
		return exitcode.NotFound // the interpreter in its first line does not exist
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EPERM):
		return exitcode.NotExecutable
	}
	return exitcode.Failed
}

// rankInfo returns the first message to a rank, which describes its position in the job.
func (a *agent) rankInfo(i int) *ranklink.RankInfo {
	t := a.task
	h := &ranklink.RankInfo{
		JobID: t.JobID, Secret: t.Secret, Rank: t.Ranks[i].Rank, Size: t.Size, Node: t.Node, Nodes: t.Nodes, NodeName: t.Host,
		NodeRanks: make([]int, len(t.Ranks)), LocalRank: i, AgentPID: os.Getpid(), Cores: t.Ranks[i].PUs,
		Oversubscribed: t.Ranks[i].Oversubscribed, Devices: t.Ranks[i].Devices,
		Page: a.perfMem.PageOf(i), Sockets: true, Psets: t.Psets,
	}
	if t.Trace {
		h.Trace = a.perfMem.TraceOf(i)
	}
	if t.Profile {
		h.Profile = a.perfMem.ProfileOf(i)
	}
	for local := range t.Ranks {
		h.NodeRanks[local] = t.Ranks[local].Rank
		h.Localities = append(h.Localities, t.Ranks[local].Locality)
	}
	return h
}

// outputWriters returns the writers for a rank's standard output and standard error.
func (a *agent) outputWriters(rank int) (stdout, stderr *output.Writer, err error) {
	if a.task.Output == "" {
		return a.out.Stdout, a.out.Stderr, nil
	}
	file, err := a.out.FileWriter(output.ExpandFileName(a.task.Output, rank, a.task.Host))
	if err != nil {
		return nil, nil, fmt.Errorf("create its output file: %w", err)
	}
	return file, file, nil
}
