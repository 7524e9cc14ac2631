package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inRuntimeDir makes a command keep its status socket in a new directory, and returns that directory.
func inRuntimeDir(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	cmd.Env = append(cmd.Env, "IBRUN_RUNTIME_DIR="+dir)
	return dir
}

// controlGroups returns the directories of the control groups of jobs of this machine whose status sockets are in dir.
func controlGroups(t *testing.T, dir string) (groups []string) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range sockets {
		filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, _ error) error {
			if filepath.Base(path) == "ibrun-"+strings.TrimSuffix(filepath.Base(socket), ".new") {
				groups = append(groups, path)
			}
			return nil
		})
	}
	return groups
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// killTogether kills processes of a job so that none can react to the death of another.
func (p *process) killTogether(sig syscall.Signal, pids ...int) {
	p.t.Helper()
	for _, pid := range pids {
		p.signal(pid, syscall.SIGSTOP)
	}
	for _, pid := range pids {
		err := syscall.Kill(pid, sig)
		if sig != syscall.SIGKILL && err == nil {
			err = syscall.Kill(pid, syscall.SIGCONT)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) { // the watcher may be faster
			p.t.Fatal(err)
		}
	}
}

// If ibrun and its agent are killed together, its watcher kills all that is left, removes the control group and the socket, and
// exits.
func TestKillIbrunAndAgent(t *testing.T) {
	t.Parallel()
	for _, j := range killJobs {
		t.Run(j.name, func(t *testing.T) {
			cmd := exec.Command("ibrun", append([]string{"-n", "2"}, j.args...)...)
			dir := inRuntimeDir(t, cmd)
			p := startCommand(t, j.lines, cmd)
			groups := controlGroups(t, dir)
			p.killTogether(syscall.SIGKILL, p.cmd.Process.Pid, p.agent())
			p.wait()
			p.wantNoProcesses()
			for _, path := range append(groups, dir) {
				if exists(path) {
					t.Errorf("%s is left", path)
				}
			}
		})
	}
	dir := filepath.Join("/tmp", fmt.Sprintf("ibrun-test-%d", time.Now().UnixNano()))
	cmd := unprivileged(t, exec.Command("ibrun", "-n", "2", "rank", "orphan")) // without a control group
	cmd.Env = append(cmd.Env, "IBRUN_RUNTIME_DIR="+dir)
	p := startCommand(t, 4, cmd)
	p.killTogether(syscall.SIGKILL, p.cmd.Process.Pid, p.agent())
	p.wait()
	p.wantNoProcesses()
	if exists(dir) {
		t.Errorf("%s is left", dir)
	}
}

// If the watcher is killed, ibrun ends the job and says why. If the agent dies with it, ibrun finds the processes of the job by
// their environment.
func TestKillWatcher(t *testing.T) {
	t.Parallel()
	p := startJob(t, 4, "-n", "2", "rank", "orphan")
	victim := p.watcher()
	p.signal(victim, syscall.SIGKILL)
	p.wantCode(1, fmt.Sprintf("the process that watches ibrun and its agent (pid %d) was killed by signal 9 (SIGKILL)\n", victim))

	p = startCommand(t, 4, unprivileged(t, exec.Command("ibrun", "-n", "2", "rank", "orphan")))
	p.killTogether(syscall.SIGKILL, p.watcher(), p.agent())
	p.wantCode(1, "")

	ns := newNodes(t, 2).start(1, "-n", "2", "rank", "sleep")
	victim = ns.list[1].watcher()
	ns.list[1].signal(victim, syscall.SIGKILL)
	ns.wantCode(1, fmt.Sprintf("the process that watches ibrun and its agent (pid %d) was killed by signal 9 (SIGKILL)\n", victim))
}

// ibrun ends only what it has started. The children of a shell that becomes ibrun by exec are not affected, and neither are
// processes that those children leave behind.
func TestOtherChildrenSurvive(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"success", "failure", "agent"} {
		rank := map[string]string{"success": "exit 0", "failure": "exit 3", "agent": "sleep"}[end]
		cmd := exec.Command("sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo other $!
sh -c 'sleep 0.1; sleep 1000 & echo other $!' 2>/dev/null & exec ibrun -n 2 rank `+rank)
		p := startCommand(t, 1, cmd)
		if end == "agent" {
			p.ready(2)
			p.ready(1) // the order of the lines does not matter
			p.signal(p.agent(), syscall.SIGKILL)
		} else {
			p.ready(1)
		}
		if err := p.cmd.Wait(); end == "success" && err != nil {
			t.Errorf("ibrun ended with %v:\n%s", err, p.stderrText())
		}
		p.eventually(end+": one of the 2 other processes has not survived", func() bool {
			survivors := 0
			for _, pid := range p.alive() {
				args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // that of sh until it has become sleep
				if err == nil && string(args) == "sleep\x001000\x00" {
					survivors++
				}
			}
			return survivors == 2
		})
	}
}

// A program that reads ibrun's output, and was a child of the shell that became ibrun, receives all of it.
func TestReaderOfOutputSurvives(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	reader := "sleep 1.5; cat > " + log + "; echo >> " + log + ".done"
	p := startCommand(t, 0, exec.Command("bash", "-c", "exec ibrun -n 2 echo line > >("+reader+")"))
	p.wantCodeOnly(0)
	p.eventually("the reader has not ended", func() bool { return exists(log + ".done") })
	if text, err := os.ReadFile(log); err != nil || string(text) != "line\nline\n" {
		t.Errorf("the reader received %q, %v", text, err)
	}
}

// wantCodeOnly is like wantCode, but other processes of the command may remain.
func (p *process) wantCodeOnly(want int) {
	p.t.Helper()
	if got := p.wait(); got != want {
		p.t.Errorf("exit code %d, want %d:\n%s", got, want, p.stderrText())
	}
}

// If ibrun is killed while it builds a program, neither the go command nor its files are left.
func TestKillDuringBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// This go command starts a process like a compiler, and blocks.
	tool := "#!/bin/sh\nmkdir $GOTMPDIR/go-build; echo x > $GOTMPDIR/go-build/file\nsetsid sleep 1000 & echo ready $$ >&2; wait\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(tool), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		cache, tmp := t.TempDir(), t.TempDir()
		cmd := exec.Command("ibrun", "-n", "1", filepath.Join(dir, "main.go"))
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + cache, "TMPDIR=" + tmp}
		p := startCommand(t, 0, cmd)
		p.eventually("no build", func() bool { return strings.Contains(p.stderrText(), "ready ") })
		p.signal(p.cmd.Process.Pid, sig)
		p.wait()
		p.wantNoProcesses()
		for _, pattern := range []string{filepath.Join(cache, "ibrun/*/*"), filepath.Join(tmp, "*")} {
			if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
				t.Errorf("after %v left: %v, %v", sig, left, err)
			}
		}
	}
}
