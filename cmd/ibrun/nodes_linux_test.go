package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/waittest"
)

// nodes is a job on several nodes, all of which are this machine.
type nodes struct {
	t      *testing.T
	addr   string
	secret string
	n      int
	list   []*process // by node
}

// newNodes prepares a job on n nodes. It starts no process.
func newNodes(t *testing.T, n int) *nodes {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, bytes.Repeat([]byte("secret!\n"), 5), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := freeport.TCP()
	if err != nil {
		t.Fatal(err)
	}
	return &nodes{t: t, addr: fmt.Sprint("127.0.0.1:", port), secret: secret, n: n, list: make([]*process, n)}
}

// command returns the command of ibrun on one of the nodes. No node is lost because this machine is busy: a test that waits for a
// silent node gives another --heartbeat.
func (ns *nodes) command(k int, args ...string) *exec.Cmd {
	return exec.Command("ibrun", append([]string{"--rendezvous", ns.addr, "--node", fmt.Sprintf("%d/%d", k, ns.n),
		"--node-name", "n" + strconv.Itoa(k), "--secret-file", ns.secret, "--heartbeat", "1m"}, args...)...)
}

// start starts ibrun on all nodes, and waits until that many lines of each have named a process.
func (ns *nodes) start(lines int, args ...string) *nodes {
	ns.t.Helper()
	for k := range ns.n {
		ns.list[k] = startCommand(ns.t, 0, ns.command(k, args...))
	}
	for _, p := range ns.list {
		p.ready(lines)
	}
	return ns
}

// wantCode checks that all nodes except the named ones print the same report and exit with the same code.
func (ns *nodes) wantCode(want int, report string, but ...*process) {
	ns.t.Helper()
next:
	for _, p := range ns.list {
		for _, not := range but {
			if p == not {
				continue next
			}
		}
		p.wantCode(want, report)
	}
}

func TestNodesPMI(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 3).start(0, "-n", "7", "-l", "rank", "pmi")
	for k, want := range []string{"[0] rank 0 of 7", "[3] rank 3 of 7", "[5] rank 5 of 7"} {
		out, err := io.ReadAll(ns.list[k].out)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("node %d wrote %q, %v", k, out, err)
		}
	}
	ns.wantCode(0, "")
}

// Ranks that are assigned to nodes round-robin, or by a file with the names of the nodes, can connect as well, and node 0 knows
// where each of them runs.
func TestNodesPlacement(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ranks")
	if err := os.WriteFile(file, []byte("rank 0=n1 slot=0\nrank 1=n0 slot=0\nrank 2=n1 slot=0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ranks string
		flags []string
		want  [2][]string
	}{
		{"5", []string{"--map-by", "node"}, [2][]string{{"[0]", "[2]", "[4]"}, {"[1]", "[3]"}}},
		{"3", []string{"--rank-file", file}, [2][]string{{"[1]"}, {"[0]", "[2]"}}},
		{"3", []string{"--ppn", "2"}, [2][]string{{"[0]", "[1]"}, {"[2]"}}},
	} {
		ns := newNodes(t, 2).start(0, slices.Concat([]string{"-l", "-n", c.ranks}, c.flags, []string{"rank", "pmi"})...)
		for k, want := range c.want {
			out, err := io.ReadAll(ns.list[k].out)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			slices.Sort(lines)
			var got []string
			for _, line := range lines {
				got = append(got, line[:min(3, len(line))])
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: node %d has ranks %q, %v; want %q", c.flags, k, got, err, want)
			}
		}
		ns.wantCode(0, "")
	}
	newNodes(t, 2).start(0, "-n", "4", "--map-by", "node", "rank", "exit", "7", "3").wantCode(7, "ibrun: rank 3 on n1 (pid ")
	newNodes(t, 2).start(0, "-n", "3", "--rank-file", file, "rank", "exit", "7", "0").wantCode(7, "ibrun: rank 0 on n1 (pid ")
	newNodes(t, 2).start(0, "-n", "4", "--ppn", "4", "rank", "pmi").wantCode(2, "node 1 (n1) of 2 gets no rank")
}

// Programs of MPICH connect on two nodes.
func TestMPICHOnNodes(t *testing.T) {
	t.Parallel()
	program := mpichProgram(t)
	ns := newNodes(t, 2).start(0, "-n", "4", program)
	if out, err := io.ReadAll(ns.list[0].out); err != nil || string(out) != "sum of 4 ranks: 6\n" {
		t.Errorf("got %q, %v", out, err)
	}
	ns.wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "3", program, "abort").wantCode(9, "rank 1 on n0 ")
}

// A failure on any node ends the job on all nodes immediately, and all nodes name it.
func TestRankFailsOnNode(t *testing.T) {
	t.Parallel()
	for rank, host := range []string{"n0", "n1", "n2"} {
		newNodes(t, 3).start(0, "-n", "3", "rank", "exit", "7", strconv.Itoa(rank)).
			wantCode(7, fmt.Sprintf("ibrun: rank %d on %s (pid ", rank, host))
	}
	ns := newNodes(t, 2).start(1, "-n", "2", "rank", "sleep")
	began := time.Now()
	ns.list[1].signal(ns.list[1].pids[0], syscall.SIGKILL)
	ns.wantCode(137, fmt.Sprintf("rank 1 on n1 (pid %d) was killed by signal 9 (SIGKILL)\n", ns.list[1].pids[0]))
	t.Logf("the job ended after %v", time.Since(began))
	newNodes(t, 2).start(0, "-n", "3", "rank", "pmi", "abort", "7", "2").wantCode(7, "rank 2 on n1 ")
	newNodes(t, 2).start(0, "-n", "3", "rank", "pmi", "leave-before-init", "2").wantCode(1, "rank 2 on n1 ")
	ns = newNodes(t, 2).start(0, "-n", "2", "sh", "-c", "echo some words >&2; test $PMI_RANK = 0 || exit 3; sleep 1000")
	ns.wantCode(3, "ibrun: rank 1 on n1 ", ns.list[0])
	ns.wantCode(3, "the last output of rank 1 was\nibrun:   | some words\n", ns.list[1])
	if text := ns.list[1].stderrText(); strings.Contains(text, "the last output") {
		t.Errorf("node 1 repeats what it has shown: %q", text)
	}
}

// Whichever process is killed on whichever node, no process is left on any node. The other nodes detect it immediately, and
// not because of a silence.
func TestKillOnNodes(t *testing.T) {
	t.Parallel()
	for victim := range 3 {
		ns := newNodes(t, 3).start(2, "--heartbeat", "1h", "-n", "3", "rank", "orphan")
		p := ns.list[victim]
		p.signal(p.cmd.Process.Pid, syscall.SIGKILL)
		began := time.Now()
		p.wait()
		ns.wantCode(1, fmt.Sprintf("the ibrun of node %d (n%[1]d) at ", victim), p)
		p.wantNoProcesses()
		t.Logf("no process remained on any node after %v", time.Since(began))
	}
	for victim := range 2 {
		ns := newNodes(t, 2).start(1, "-n", "2", "rank", "sleep")
		p := ns.list[victim]
		p.signal(p.agent(), syscall.SIGKILL)
		ns.wantCode(1, fmt.Sprintf("the agent on n%d (pid ", victim))
	}
}

// Keys that are pressed on any node affect the whole job.
func TestSignalsOnNodes(t *testing.T) {
	t.Parallel()
	for asked := range 2 {
		ns := newNodes(t, 2).start(1, "--grace", "1m", "-n", "2", "rank", "patient")
		p := ns.list[asked]
		p.signal(p.cmd.Process.Pid, syscall.SIGINT)
		for _, p := range ns.list {
			if line := p.line(); line != "received interrupt\n" {
				t.Errorf("a rank wrote %q", line)
			}
		}
		ns.wantCode(0, "", ns.list[1-asked])
		ns.list[1-asked].wantCode(0, "")

		ns = newNodes(t, 2).start(1, "--grace", "1m", "-n", "2", "rank", "stubborn")
		p = ns.list[asked]
		p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		p.eventually("ibrun prints nothing", func() bool { return strings.Contains(p.stderrText(), "a second signal") })
		p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		const want = "did not end when asked"
		ns.list[0].wantCode(143, want)
		ns.list[1].wantCode(143, "")
		text := ns.list[1].stderrText()
		// The node that was asked waits only 2.5 s for the answer of node 0.
		if !strings.Contains(text, want) && !(asked == 1 && strings.Contains(text, "node 0 did not end the job")) {
			t.Errorf("node 1 printed\n%s\nwant %q", text, want)
		}
	}
}

// startForSilence starts a rank that sleeps on each of two nodes, for a test that waits until a node was silent for the time of
// --heartbeat. It tries this one, and a longer one if a node was silent so long while it started.
func startForSilence(t *testing.T, heartbeat time.Duration) (ns *nodes, used time.Duration) {
	t.Helper()
	for ; heartbeat < waittest.Limit; heartbeat *= 4 {
		ns = newNodes(t, 2).start(0, "--heartbeat", heartbeat.String(), "-n", "2", "rank", "sleep")
		if ns.list[0].readyOrEnded(1) && ns.list[1].readyOrEnded(1) {
			return ns, heartbeat
		}
		text := ""
		for _, p := range ns.list {
			p.wait()
			text += p.stderrText()
		}
		if !strings.Contains(text, "no heartbeat for "+heartbeat.String()) {
			t.Fatalf("the nodes do not start:\n%s", text)
		}
	}
	t.Fatal("the nodes do not start in time")
	return nil, 0
}

// If the user stops one node, the ranks on all nodes stop, and the node does not count as lost.
func TestNodeStopsAndContinues(t *testing.T) {
	inParallel(t, 2, func(t *testing.T, asked int) {
		ns, heartbeat := startForSilence(t, 10*time.Second)
		p := ns.list[asked]
		all := []int{p.cmd.Process.Pid, ns.list[0].pids[0], ns.list[1].pids[0]}
		stopped := func(want bool) func() bool {
			return func() bool {
				for _, pid := range all {
					if state, _ := p.stat(pid); (state == "T") != want {
						return false
					}
				}
				return true
			}
		}
		p.signal(p.cmd.Process.Pid, syscall.SIGTSTP)
		p.eventually("not all of them stop", stopped(true))
		waittest.Elapse(t, heartbeat+2*time.Second, "the stopped node is not lost")
		p.signal(p.cmd.Process.Pid, syscall.SIGCONT)
		p.eventually("not all of them continue", stopped(false))
		waittest.Elapse(t, 500*time.Millisecond, "the job goes on")
		p.signal(ns.list[1].pids[0], syscall.SIGKILL)
		ns.wantCode(137, "rank 1 on n1 ")
	})
}

// inParallel runs tests that mostly wait, in parallel with each other and with other tests.
func inParallel(t *testing.T, n int, test func(t *testing.T, i int)) {
	t.Parallel()
	for i := range n {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			test(t, i)
		})
	}
}

// A node that sends nothing any more counts as lost, and ends by itself when it can.
func TestNodeHangs(t *testing.T) {
	inParallel(t, 2, func(t *testing.T, victim int) {
		ns, heartbeat := startForSilence(t, 2*time.Second)
		p := ns.list[victim]
		p.signal(p.cmd.Process.Pid, syscall.SIGSTOP)
		ns.wantCode(1, "is lost: no heartbeat for "+heartbeat.String(), p)
		p.signal(p.cmd.Process.Pid, syscall.SIGCONT)
		if code := p.wait(); code != 1 {
			t.Errorf("exit code %d of the node that was given up:\n%s", code, p.stderrText())
		}
		p.wantNoProcesses()
	})
}

// The timeout of node 0 applies.
func TestTimeoutOnNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2)
	ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "2", "--timeout", "0.5", "rank", "sleep"))
	ns.list[1] = startCommand(t, 0, ns.command(1, "-n", "2", "rank", "sleep"))
	ns.wantCode(124, "ranks 0-1 were still running")
}

// Differences between the command lines are reported on both sides.
func TestNodesDisagree(t *testing.T) {
	t.Parallel()
	const two = "-n 1 rank sleep : -n 1 rank sleep"
	for want, args := range map[string][]string{
		`node 1 (n1) was started with "-n 3 rank sleep", but node 0 with "-n 2 rank sleep"`: {"-n", "3", "rank", "sleep"},
		`node 1 (n1) was started with "-n 2 rank pmi"`:                                      {"-n", "2", "rank", "pmi"},
		`"` + two + `"`: strings.Fields(two),
	} {
		ns := newNodes(t, 2)
		ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "2", "rank", "sleep"))
		ns.list[1] = startCommand(t, 0, ns.command(1, args...))
		ns.wantCode(2, want)
	}
	ns := newNodes(t, 2)
	ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "3", "rank", "sleep"))
	ns.n = 3
	ns.list[1] = startCommand(t, 0, ns.command(2, "-n", "3", "rank", "sleep"))
	ns.wantCode(2, "node 2 (n2) was started for 3 nodes, but node 0 for 2 nodes (--node)")
}

// If a node cannot start a rank, the job ends on all nodes.
func TestNodeCannotStart(t *testing.T) {
	t.Parallel()
	for failing := range 2 {
		dir := t.TempDir()
		ns := newNodes(t, 2)
		for k := range 2 {
			cmd := ns.command(k, "-n", "2", "./program")
			if cmd.Dir = dir; k == failing {
				cmd.Dir = t.TempDir()
			}
			if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\nsleep 1000\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			ns.list[k] = startCommand(t, 0, cmd)
		}
		ns.wantCode(127, "./program: no such file or directory")
	}
}

// A node that does not join in time is named, after a while and at the end, by all that have joined.
func TestNodeIsMissing(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"3s", "12s", "45s"} { // until node 2 has joined within half of that time
		ns := newNodes(t, 4)
		ns.list[2] = startCommand(t, 0, ns.command(2, "-n", "4", "rank", "sleep"))
		ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "4", "--join-timeout", limit, "rank", "sleep"))
		missing := "nodes 1,3 of 4 did not join within " + limit + " (--join-timeout)\n"
		notice := "still waiting for nodes 1,3 of 4: start ibrun there with --rendezvous " + ns.addr + " --node 1/4, "
		ns.list[0].wantCode(1, "did not join within "+limit)
		text := ns.list[0].stderrText()
		if strings.Contains(text, missing) && strings.Contains(text, notice) {
			ns.list[2].wantCode(1, missing)
			break
		}
		if limit == "45s" {
			t.Errorf("node 0 printed\n%s\nwant %q and %q", text, missing, notice)
		}
		ns.list[2].signal(ns.list[2].cmd.Process.Pid, syscall.SIGKILL) // it may wait for another minute
		ns.list[2].wait()
	}
}

// A node to which node 0 does not answer says so, after a while and at the end, with the reason.
func TestNode0IsMissing(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"300ms", "3s", "20s"} { // until half of that time is left when it has tried first
		ns := newNodes(t, 2)
		p := startCommand(t, 0, ns.command(1, "-n", "2", "--join-timeout", limit, "rank", "sleep"))
		p.wantCode(1, "node 0 at "+ns.addr+" did not answer within "+limit+" (--join-timeout)")
		text := p.stderrText()
		line := "ibrun: still waiting for node 0 at " + ns.addr + " (dial tcp " + ns.addr + ": connect: connection refused): start " +
			"ibrun there with --rendezvous " + ns.addr + " --node 0/2; the wait ends after " + limit + " (--join-timeout)\n"
		if strings.Contains(text, line) && strings.Count(text, "connection refused") == 2 {
			return
		}
		t.Logf("node 1 printed\n%s", text)
	}
	t.Error("node 1 does not print why node 0 is missing")
}

// A signal ends the wait of node 0 for the other nodes.
func TestSignalWhileJoining(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2)
	p := startCommand(t, 0, ns.command(0, "-n", "2", "rank", "sleep"))
	p.eventually("it does not listen", func() bool {
		c, err := net.Dial("tcp", ns.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.wantCode(130, "waiting for the other nodes was stopped by a signal: interrupt")
}

// A different secret is reported on both sides immediately. Node 0 goes on waiting for the right node.
func TestNodesWithOtherSecret(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2)
	other := newNodes(t, 2)
	other.addr = ns.addr
	if err := os.WriteFile(other.secret, bytes.Repeat([]byte("another\n"), 5), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "2", "rank", "pmi"}
	ns.list[0] = startCommand(t, 0, ns.command(0, args...))
	for range 2 {
		other.list[1] = startCommand(t, 0, other.command(1, args...))
		other.list[1].wantCode(1, "node 0 at "+ns.addr+": it has a different secret (--secret-file)")
	}
	const line = "was refused: node 1: it has a different secret (--secret-file); waiting for the right one\n"
	ns.list[0].eventually("node 0 does not report the refused node", func() bool {
		return strings.Contains(ns.list[0].stderrText(), line)
	})
	ns.list[1] = startCommand(t, 0, ns.command(1, args...))
	ns.wantCode(0, "")
	if text := ns.list[0].stderrText(); strings.Count(text, line) != 1 {
		t.Errorf("node 0 reports a host and reason more than once:\n%s", text)
	}
}

// A second ibrun with the number of a joined node is refused, which both sides report, and the job continues with the first.
func TestNodeJoinsTwice(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 3)
	args := []string{"-n", "3", "rank", "patient"}
	ns.list[0] = startCommand(t, 0, ns.command(0, append([]string{"-v"}, args...)...))
	ns.list[1] = startCommand(t, 0, ns.command(1, args...))
	ns.list[0].eventually("node 1 does not join", func() bool {
		return strings.Contains(ns.list[0].stderrText(), "node 1 has joined: n1 at ")
	})
	refused := func(why string) {
		t.Helper()
		startCommand(t, 0, ns.command(1, args...)).wantCode(2, why)
		ns.list[0].eventually("node 0 does not report it", func() bool {
			at := strings.Index(ns.list[0].stderrText(), "node 1 (n1) at 127.0.0.1:")
			return at >= 0 && strings.Contains(ns.list[0].stderrText()[at:], " was refused: "+why)
		})
	}
	refused("node 1 has already joined: n1 at 127.0.0.1:")
	ns.list[2] = startCommand(t, 0, ns.command(2, args...))
	for _, p := range ns.list {
		p.ready(1)
	}
	refused("the job has already started with another node 1; every node needs a number of its own (--node)")
	ns.list[2].signal(ns.list[2].cmd.Process.Pid, syscall.SIGTERM)
	ns.wantCode(0, "")
}

// Unauthenticated connections have no effect, neither before the nodes have joined nor afterwards.
func TestUnauthenticatedConnections(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2)
	ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "2", "rank", "pmi"))
	strange := 0
	ns.list[0].eventually("it does not listen", func() bool {
		c, err := net.Dial("tcp", ns.addr)
		if err != nil {
			return false
		}
		t.Cleanup(func() { c.Close() }) // most stay open and send nothing more
		if strange++; strange%3 == 0 {
			io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"+strings.Repeat("x", 100))
		}
		return strange == 200
	})
	ns.list[1] = startCommand(t, 0, ns.command(1, "-n", "2", "rank", "pmi"))
	ns.wantCode(0, "")
}

// network is a network namespace with an interface, eth0, that has an address. newSite connects it with others.
type network struct{ name, addr string }

// networks is the number of networks that were made.
var networks atomic.Int32

// inside returns a command that runs in the network.
func (n network) inside(cmd *exec.Cmd) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.name}, cmd.Args...)...)
}
