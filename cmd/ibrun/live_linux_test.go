package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// socketDir gives the jobs of a test a directory of their own for sockets.
func socketDir(t *testing.T) (sockets string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(dir, "ibrun"))
	return filepath.Join(dir, "ibrun")
}

// runJSON runs one of the commands about jobs and decodes its output. It tries again while a job does not answer in time.
func runJSON[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	waittest.UntilNil(t, "the job answers", func() error {
		var stderr strings.Builder
		cmd := exec.Command("ibrun", args...)
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err != nil && !strings.Contains(stderr.String(), jobs.ErrNoAnswer.Error()) {
			t.Fatalf("ibrun %s: %v\n%s%s", strings.Join(args, " "), err, text, &stderr)
		}
		return err
	})
	return v
}

// answer returns what a query of a job returns. It tries again while the job does not answer in time.
func answer[T any](t *testing.T, query func() (T, error)) (v T, err error) {
	t.Helper()
	waittest.UntilNil(t, "the job answers", func() error {
		if v, err = query(); errors.Is(err, jobs.ErrNoAnswer) {
			return err
		}
		return nil
	})
	return v, err
}

// waitForView waits until the hang view has these groups, in this order, each "RANKS: beginning of the description".
func (p *process) waitForView(want ...string) (v inspect.View) {
	p.t.Helper()
	fits := func() bool {
		v = runJSON[inspect.View](p.t, "hang", "--json")
		return slices.EqualFunc(v.Groups, want, func(g inspect.Group, begin string) bool {
			return strings.HasPrefix(fmt.Sprintf("%v: %s", g.Ranks, g.What), begin)
		})
	}
	p.eventually("the view does not come", func() bool {
		if fits() {
			return true
		}
		p.t.Logf("not yet: %+v", v.Groups)
		return false
	})
	return v
}

// TestHangView: the view shows a rank that loops without calls, the ranks that wait for it, and their operations. The loop is
// in the stacks. A signal to ibrun prints the same view, and the ranks continue.
func TestHangView(t *testing.T) {
	socketDir(t)
	p := startJob(t, 4, "-n", "4", "rank", "hang", "loop")
	v := p.waitForView("[1]: computing, not in MPI", "[0]: in Recv from rank 1, tag 7", "[2 3]: in Barrier")
	if !slices.Contains(v.Groups[0].WaitedFor, 0) {
		t.Errorf("rank 0 does not wait for rank 1 in %+v", v.Groups)
	}
	p.eventually("rank 1 never prints its line", func() bool { // the machine may be busy
		v = runJSON[inspect.View](t, "hang", "--json")
		return len(v.Stacks) > 0 && v.Stacks[0].Rank == 1 && strings.Contains(v.Stacks[0].Text, "loopForEver(")
	})
	p.signal(p.cmd.Process.Pid, syscall.SIGUSR1)
	p.eventually("no view on SIGUSR1", func() bool {
		return strings.Contains(p.stderrText(), "  rank 0: in Recv from rank 1, tag 7, for")
	})
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// TestCreationInView: a rank that creates a communicator is shown in that call, not in the operations that implement it.
func TestCreationInView(t *testing.T) {
	socketDir(t)
	p := startJob(t, 4, "-n", "4", "rank", "hang", "dup")
	p.waitForView("[1]: asleep, not in MPI", "[2]: in CommFromGroup", "[0 3]: in Dup")
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// TestStoppedRankInView: a rank that a signal has stopped is shown as stopped, is not waited for, and answers when it
// continues.
func TestStoppedRankInView(t *testing.T) {
	socketDir(t)
	p := startJob(t, 2, "-n", "2", "rank", "hang", "nap")
	p.waitForView("[1]: asleep, not in MPI", "[0]: in Recv from rank 1, tag 7")
	pid := 0
	p.eventually("rank 1 has no process", func() bool { // it may be ready before its agent has reported it
		pid = runJSON[inspect.Table](t, "top", "--once", "--json").Rows[1].PID
		return pid != 0
	})
	p.signal(pid, syscall.SIGSTOP)
	v := p.waitForView("[1]: stopped", "[0]: in Recv from rank 1, tag 7")
	if slices.ContainsFunc(v.Stacks, func(s inspect.Stack) bool { return s.Rank == 1 }) {
		t.Errorf("a stopped rank was asked: %+v", v.Stacks)
	}
	p.signal(pid, syscall.SIGCONT)
	v = p.waitForView("[1]: asleep, not in MPI", "[0]: in Recv from rank 1, tag 7")
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// TestForeignRanksInView: programs without package mpi are shown with the kernel's data, even if they have exited.
func TestForeignRanksInView(t *testing.T) {
	socketDir(t)
	p := startJob(t, 1, "-n", "1", "rank", "sleep", ":", "-n", "1", "true")
	v := p.waitForView("[1]: process exited", "[0]: no record")
	if len(v.Stacks) > 0 {
		t.Errorf("stacks of what knows nothing of ibrun: %+v", v.Stacks)
	}
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// TestTimeoutShowsView: the hang view is printed before --timeout ends the job.
func TestTimeoutShowsView(t *testing.T) {
	t.Parallel()
	printed := ""
	for _, limit := range []string{"1", "4", "15", "45"} { // until the ranks have initialized within that time
		p := startJob(t, 0, "-n", "2", "--timeout", limit, "rank", "hang", "nap")
		p.wantCode(124, "(--timeout)")
		printed = p.stderrText()
		view, end := strings.Index(printed, "  rank 0: in Recv from rank 1, tag 7, for"), strings.Index(printed, "(--timeout)")
		if view >= 0 && view < end {
			return
		}
	}
	t.Errorf("ibrun printed\n%s", printed)
}

// TestPsAndTop: a running job is listed by a socket that only its user can access, and its ranks are listed one by one.
func TestPsAndTop(t *testing.T) {
	sockets := socketDir(t)
	if list := runJSON[[]jobs.Job](t, "ps", "--json"); len(list) != 0 {
		t.Errorf("jobs before the first: %+v", list)
	}
	p := startJob(t, 3, "-n", "3", "rank", "hang", "nap")
	list := runJSON[[]jobs.Job](t, "ps", "--json")
	if len(list) != 1 || list[0].PID != p.cmd.Process.Pid || list[0].Size != 3 ||
		strings.Join(list[0].Command, " ") != "rank hang nap" {
		t.Fatalf("jobs are %+v", list)
	}
	p.waitForView("[1]: asleep, not in MPI", "[0]: in Recv from rank 1, tag 7", "[2]: in Barrier")
	for _, name := range []string{"", list[0].ID, list[0].ID[:3], fmt.Sprint(list[0].PID)} {
		table := runJSON[inspect.Table](t, append([]string{"top", "--once", "--json", "--interval", "200ms"},
			strings.Fields(name)...)...)
		if len(table.Rows) != 3 || table.Rows[0].MPIShare != 1 || table.Rows[1].MPIShare != 0 ||
			table.Rows[0].State != jobs.Running ||
			table.Rows[1].Calls == 0 || table.Seconds < 0.2 || len(table.Rows[0].Waits) != 1 {
			t.Errorf("top %s: %+v", name, table)
		}
	}
	wantPrivate(t, sockets, 1)
	p.killTogether(syscall.SIGKILL, p.cmd.Process.Pid, p.watcher()) // so the socket remains
	p.wait()
	p.wantNoProcesses()
	wantPrivate(t, sockets, 1)
	if list := runJSON[[]jobs.Job](t, "ps", "--json"); len(list) != 0 {
		t.Errorf("jobs after the end: %+v", list)
	}
	wantPrivate(t, sockets, 0)
	out, err := exec.Command("ibrun", "top", "--once", "nosuch").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nosuch") {
		t.Errorf("top of no job: %v, %s", err, out)
	}
}

// TestJobsFromOutside: a program that is not the job's reads what its ranks have done and do, until the job ends.
func TestJobsFromOutside(t *testing.T) {
	socketDir(t)
	p := startJob(t, 3, "-n", "3", "rank", "hang", "nap")
	p.waitForView("[1]: asleep, not in MPI", "[0]: in Recv from rank 1, tag 7", "[2]: in Barrier")
	job, err := answer(t, func() (jobs.Job, error) { return jobs.Find(t.Context(), "") })
	if err != nil || job.PID != p.cmd.Process.Pid || job.Size != 3 || job.Here != 3 {
		t.Fatalf("%+v, %v", job, err)
	}
	var ranks []jobs.Rank
	p.eventually("a rank has no process", func() bool { // it may be ready before its agent has reported it
		ranks, err = answer(t, func() ([]jobs.Rank, error) { return job.Ranks(t.Context()) })
		return err != nil || !slices.ContainsFunc(ranks, func(r jobs.Rank) bool { return r.PID == 0 })
	})
	if err != nil || len(ranks) != 3 || ranks[0].State != jobs.Running || len(ranks[0].Waits) != 1 ||
		ranks[0].Waits[0].Op != "Recv" {
		t.Errorf("%+v, %v", ranks, err)
	}
	pages, err := answer(t, func() ([]*perf.Snapshot, error) { return job.Snapshots(t.Context()) })
	if err != nil || len(pages) != 3 {
		t.Fatalf("%+v, %v", pages, err)
	}
	for i, s := range pages {
		calls, _ := s.Calls()
		if s.Rank != i || s.PID != ranks[i].PID || s.State != perf.Running || s.Began.IsZero() || calls < ranks[i].Calls {
			t.Errorf("rank %d: %+v", i, s)
		}
	}
	if c := pages[0].Current; len(c) != 1 || c[0].Op != perf.Recv || c[0].Peer != 1 || c[0].Tag != 7 {
		t.Errorf("rank 0 is in %+v", c)
	}
	timed := uint64(0)
	for _, o := range perf.MergeOps(pages...) {
		timed += o.Latency.Count()
	}
	if timed == 0 {
		t.Error("no call has a latency")
	}
	p.eventually("rank 1 never sends its stacks", func() bool { // it has a second for that
		texts, err := answer(t, func() (map[int]string, error) { return job.Stacks(t.Context(), []int{1}) })
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(texts[1], "goroutine")
	})
	p.killTogether(syscall.SIGKILL, p.cmd.Process.Pid, p.watcher())
	p.wait()
	if pages, err := job.Snapshots(t.Context()); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("after the end: %+v, %v", pages, err)
	}
	if job, err := jobs.Find(t.Context(), job.ID); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("after the end: %+v, %v", job, err)
	}
}

// wantPrivate checks that a directory contains that many sockets and that other users cannot access them.
func wantPrivate(t *testing.T, dir string, want int) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("directory %v, %v", info, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != want {
		t.Errorf("sockets %v, %v, want %d", files, err, want)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("socket %v, %v", info, err)
		}
	}
}

// TestProgressLines: reported progress is printed as lines if there is no terminal, the last one when the job has ended.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("ibrun", "-n", "2", "rank", "work")
	sockets := inRuntimeDir(t, cmd)
	p := startCommand(t, 0, cmd)
	p.wantCode(0, "ibrun: progress: ")
	if n := strings.Count(p.stderrText(), "progress"); n < 1 || !strings.HasSuffix(p.stderrText(),
		"progress: 100 % (40 of 40)\n") {
		t.Errorf("%d lines of progress:\n%s", n, p.stderrText())
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the directory of sockets remains: %v", err)
	}
}

// TestProgressOnNodes: node 0 shows the progress of the ranks of all nodes, up to the end, and no other node shows it.
func TestProgressOnNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2).start(0, "-n", "3", "rank", "work")
	ns.wantCode(0, "")
	if printed := ns.list[0].stderrText(); !strings.Contains(printed, "ibrun: progress: 100 % (60 of 60)\n") {
		t.Errorf("node 0 printed\n%s", printed)
	}
	if printed := ns.list[1].stderrInTime(); printed != "" {
		t.Errorf("node 1 printed\n%s", printed)
	}
}

// TestViewOnNodes: every ibrun of a job answers for the ranks of all nodes, with the stacks of ranks on other nodes. The ibrun
// that receives a signal prints them.
func TestViewOnNodes(t *testing.T) {
	socketDir(t)
	ns := newNodes(t, 3).start(1, "-n", "3", "rank", "hang", "nap")
	for _, p := range ns.list {
		pid := fmt.Sprint(p.cmd.Process.Pid)
		p.eventually("the ranks are not seen", func() bool { // the machine may be busy
			v := runJSON[inspect.View](t, "hang", "--json", pid)
			t.Logf("%s: %+v", pid, v.Groups)
			return len(v.Groups) == 3 && len(v.Stacks) > 0 && v.Stacks[0].Rank == 1 &&
				strings.Contains(v.Stacks[0].Text, "napForEver(") && strings.HasPrefix(v.Groups[0].What, "asleep, not in MPI") &&
				slices.Equal(v.Groups[0].Hosts, []string{"n1"}) && slices.Contains(v.Groups[0].WaitedFor, 0)
		})
		p.eventually("top does not show all ranks", func() bool { // a node has a second for its answer
			table := runJSON[inspect.Table](t, "top", "--once", "--json", "--interval", "200ms", pid)
			t.Logf("top of %s: %+v", pid, table)
			for rank, row := range table.Rows {
				if row.Rank.Rank != rank || row.Host != fmt.Sprint("n", rank) || row.State != jobs.Running ||
					row.PID == 0 || row.Wall == 0 {
					return false
				}
			}
			return len(table.Rows) == 3 && table.Rows[0].MPIShare == 1 && table.Rows[1].MPIShare == 0
		})
	}
	p := ns.list[2]
	p.signal(p.cmd.Process.Pid, syscall.SIGUSR1)
	p.eventually("no view", func() bool {
		return strings.Contains(p.stderrText(), "  rank 0 on n0: in Recv from rank 1, tag 7, for")
	})
	if printed := ns.list[0].stderrInTime(); printed != "" {
		t.Errorf("node 0 was not asked, but printed\n%s", printed)
	}
	job := p.job()
	p.eventually("the ranks are not seen by the name of the job", func() bool {
		return len(runJSON[inspect.View](t, "hang", "--json", job).Groups) == 3
	})
	ns.list[0].signal(ns.list[0].pids[0], syscall.SIGKILL)
	ns.wantCode(137, "SIGKILL")
}

// job returns the ID of the only job.
func (p *process) job() string {
	p.t.Helper()
	list := runJSON[[]jobs.Job](p.t, "ps", "--json")
	if len(list) == 0 || list[0].ID != list[len(list)-1].ID {
		p.t.Fatalf("jobs are %+v", list)
	}
	return list[0].ID
}

// TestIdle: waiting ranks use no processor time, neither in later operations nor in the first collective, where they wait for
// shared memory.
func TestIdle(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("ibrun", "-n", "3", "rank", "hang", "first")
	cmd.Env = []string{"IBRUN_POLL="}
	p := startCommand(t, 3, cmd)
	for _, pid := range p.pids {
		quiet := 0 // consecutive checks in which all threads slept
		p.eventually(fmt.Sprintf("process %d of %v never rests", pid, p.pids), func() bool {
			quiet++
			tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			if err != nil || len(tasks) == 0 {
				t.Fatalf("threads of process %d: %v, %v", pid, tasks, err)
			}
			for _, task := range tasks {
				text, err := os.ReadFile(task)
				if _, rest, _ := strings.Cut(string(text), ") "); err == nil && !strings.HasPrefix(rest, "S") {
					quiet = 0
				}
			}
			return quiet > 20
		})
	}
	p.signal(p.cmd.Process.Pid, syscall.SIGKILL)
	p.wait()
	p.wantNoProcesses()
}
