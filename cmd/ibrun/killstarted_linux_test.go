package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// relay is a launch agent that works like ssh: the command that it starts is in a session of its own, and sees the end of its
// streams when the relay dies.
func relay() int {
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 255
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 255
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	go func() {
		_, _ = in.(*os.File).ReadFrom(os.Stdin) // ends with either side
		in.Close()
	}()
	_, _ = os.Stdout.ReadFrom(out)
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) && !exit.Exited() {
		return 255
	}
	return cmd.ProcessState.ExitCode()
}

// started is how the coordinator names a node whose starter or ibrun was killed. The end of the
// connection may be noticed first.
const started = "the connection to (node 1 \\(%[1]s\\) at )?%[1]s[: ].*relay (was killed by signal 9|ended with exit code)"

// startedFaults are the processes of a job with started nodes that TestKillStarted kills, with the regular
// expression by which the coordinator must name them. "%[1]s" is the host of the victim.
var startedFaults = []struct{ name, culprit string }{
	{"coordinator", ""},
	{"starter", started},
	{"ibrun node", started},
	{"agent", `the agent on %[1]s \(pid `},
	{"watcher", `the process that watches ibrun and its agent \(pid `},
	{"rank", `on %[1]s \(pid %[2]d\) was killed by signal 9 \(SIGKILL\)`},
}

// TestKillStarted kills a process of a job whose coordinator has started the other nodes, at a
// random time. Afterwards nothing of the job is left, and the coordinator names what was killed.
// With IBRUN_SOAK it kills each kind a hundred times, on the host of the coordinator and on
// another, and bounds the time. All hosts are this machine, where the watcher of the coordinator
// may kill that of another host before it has removed files, so the test looks only at processes.
func TestKillStarted(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	var tests []func()
	for kind, f := range startedFaults {
		for host := range 2 {
			switch {
			case host == 0 && (f.name == "starter" || f.name == "ibrun node"), host == 1 && f.name == "coordinator":
			case soaktest.On():
				t.Run(fmt.Sprint(f.name, " of host ", host), func(t *testing.T) {
					t.Parallel()
					random := newRandom(t)
					repeat(t, t.Name(), leftWithin, func() time.Duration {
						took, wrong := killStarted(t, random, kind, host)
						if wrong != "" {
							t.Error(wrong)
						}
						return took
					})
				})
			default:
				tests = append(tests, func() {
					notLate(t, 3, func() string {
						_, wrong := killStarted(t, random, kind, host)
						return wrong
					})
				})
			}
		}
	}
	if tests != nil {
		tests[random.IntN(len(tests))]()
	}
}

// killStarted starts a job, kills a process of this kind on a host, and returns how long something of the job was left, and what
// is wrong with its end.
func killStarted(t *testing.T, random *rand.Rand, kind, host int) (took time.Duration, wrong string) {
	t.Helper()
	starter, err := exec.LookPath("relay")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibrun", "--launch-agent", starter, "--hosts", "h0:2,h1:2,h2:2", "--node-name", "h0", "rank", "traffic",
		trafficTime.String())
	inRuntimeDir(t, cmd)
	p := startCommand(t, 0, cmd)
	p.eventually("no agents", func() bool { return len(p.find("ibrun\x00agent\x00")) == 3 })
	waittest.Elapse(t, time.Duration(random.Int64N(int64(killWithin))), "the job comes to a random state")
	root := p.cmd.Process.Pid // the ibrun of the host
	var relays []int
	if host > 0 {
		relays = p.find(starter + fmt.Sprintf("\x00h%d\x00", host))
		if len(relays) != 1 {
			t.Fatalf("starters of host %d: %v", host, relays)
		}
		root = p.children(relays[0])[0]
	}
	agent := 0
	p.eventually("no agent", func() bool { // one of those found before may have been a child of another that had not called exec
		for _, pid := range p.find("ibrun\x00agent\x00") {
			if _, watcher := p.stat(pid); slices.Contains(p.children(root), watcher) {
				agent = pid
			}
		}
		return agent != 0
	})
	victim, code := root, 1
	switch startedFaults[kind].name {
	case "starter":
		victim = relays[0]
	case "agent":
		victim = agent
	case "watcher":
		_, victim = p.stat(agent)
	case "rank":
		p.eventually("too few ranks", func() bool { return len(p.children(agent)) == 2 })
		victim, code = p.children(agent)[random.IntN(2)], 137
	}
	culprit := startedFaults[kind].culprit
	if strings.Contains(culprit, "%") {
		culprit = strings.TrimSuffix(fmt.Sprintf(culprit, fmt.Sprint("h", host), victim), "%!(EXTRA int="+fmt.Sprint(victim)+")")
	}
	began := time.Now()
	p.killTogether(syscall.SIGKILL, victim)
	got := p.wait()
	named := regexp.MustCompile(culprit).MatchString(lastLine(p.stderrText()))
	if victim != p.cmd.Process.Pid && (got != code || !named) {
		wrong = fmt.Sprintf("%s of host %d was killed at %v: exit code %d, want %d and %q in the last line of\n%s",
			startedFaults[kind].name, host, began, got, code, culprit, p.stderrText())
	}
	waittest.UntilNil(t, startedFaults[kind].name+" was killed", func() error {
		if len(p.alive()) > 0 {
			return fmt.Errorf("on host %d: processes remain: %q", host, p.commands())
		}
		return nil
	})
	return time.Since(began), wrong
}

// children returns the living processes of the job that are children of a process.
func (p *process) children(of int) (pids []int) {
	for _, pid := range p.alive() {
		text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
		if err != nil {
			continue // it has exited meanwhile
		}
		var state string
		var parent int
		_, rest, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == of && state != "Z" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// commands returns the command lines of the living processes of the job.
func (p *process) commands() (all []string) {
	for _, pid := range p.alive() {
		if text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline")); err == nil {
			all = append(all, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(text), "\x00", " ")))
		}
	}
	return all
}
