package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// victims are what TestKillAtRandom kills, with the words by which the surviving ibruns must name it.
var victims = []struct{ name, culprit string }{
	{"ibrun", "the ibrun of node %d (n%[1]d) at "},
	{"agent", "the agent on n%d (pid "},
	{"rank", ""}, // with its pid
	{"ibrun and agent", "the ibrun of node %d (n%[1]d) at "},
	{"watcher", "the process that watches ibrun and its agent (pid "},
}

const (
	// trafficTime is how long the ranks exchange messages, and killWithin the time after the start of the agents in which a
	// process is killed: before, in and after the traffic.
	trafficTime = 300 * time.Millisecond
	killWithin  = 600 * time.Millisecond
	// leftWithin is how long after the kill processes and files may exist: the grace of half a second after a failure, and one
	// second.
	leftWithin = 1500 * time.Millisecond
)

// TestKillAtRandom kills processes of jobs on one and on two nodes at random times. Afterwards nothing of the job is left, and
// the surviving ibruns name the process that was killed. With IBRUN_SOAK it kills each kind a hundred times, and bounds the time.
func TestKillAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	if os.Getenv("IBRUN_SOAK") != "1" {
		for range 3 {
			killAtRandom(t, random, random.IntN(len(victims)), 1+random.IntN(2))
		}
		return
	}
	const rounds = 100
	for victim, v := range victims {
		for nodes := 1; nodes <= 2; nodes++ {
			var slowest time.Duration
			for range rounds {
				slowest = max(slowest, killAtRandom(t, random, victim, nodes))
			}
			t.Logf("%d times %s of %d nodes: nothing was left after %v", rounds, v.name, nodes, slowest.Round(time.Millisecond))
			if slowest > leftWithin {
				t.Errorf("%s of %d nodes: something was left for %v", v.name, nodes, slowest)
			}
		}
	}
}

// killAtRandom starts a job, kills a process of a random node, and returns how long something of the job was left.
func killAtRandom(t *testing.T, random *rand.Rand, victim, count int) time.Duration {
	t.Helper()
	node, rank := random.IntN(count), random.IntN(2)
	ns := newNodes(t, count)
	dirs := make([]string, count)
	for k := range ns.list {
		args := []string{"-n", fmt.Sprint(2 * count), "rank", "traffic", trafficTime.String()}
		cmd := exec.Command("ibrun", append([]string{"--node-name", "n0"}, args...)...)
		if count > 1 {
			cmd = ns.command(k, args...)
		}
		dirs[k] = inRuntimeDir(t, cmd)
		ns.list[k] = startCommand(t, 0, cmd)
	}
	for _, p := range ns.list {
		p.eventually("no agent", func() bool { return p.find("ibrun\x00agent\x00") != nil })
	}
	p := ns.list[node]
	time.Sleep(time.Duration(random.Int64N(int64(killWithin))))
	culprit, code, pids := victims[victim].culprit, 1, []int{}
	if strings.Contains(culprit, "%") {
		culprit = fmt.Sprintf(culprit, node)
	}
	switch victims[victim].name {
	case "ibrun":
		pids = []int{p.cmd.Process.Pid}
	case "agent":
		pids = []int{p.agent()}
	case "ibrun and agent":
		pids = []int{p.cmd.Process.Pid, p.agent()}
	case "watcher":
		pids = []int{p.watcher()}
	case "rank":
		var ranks []int
		p.eventually("too few ranks", func() bool { ranks = p.find("rank\x00traffic\x00"); return len(ranks) == 2 })
		slices.Sort(ranks)
		culprit, code, pids = fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL)\n", ranks[rank]), 137, ranks[rank:rank+1]
	}
	var left []string
	for _, dir := range dirs {
		left = append(append(left, dir), controlGroups(t, dir)...)
	}
	killed := time.Now()
	p.killTogether(pids...)
	remains := func() bool {
		return slices.ContainsFunc(ns.list, func(p *process) bool { return len(p.alive()) > 0 }) || slices.ContainsFunc(left, exists)
	}
	for _, other := range ns.list {
		if got := other.wait(); other == p && slices.Contains(pids, p.cmd.Process.Pid) {
			continue
		} else if text := other.stderrText(); got != code || !strings.Contains(lastLine(text), culprit) {
			t.Errorf("%s of node %d of %d was killed after %v: exit code %d, want %d and %q in the last line of\n%s",
				victims[victim].name, node, count, killed, got, code, culprit, text)
		}
	}
	p.eventually("processes or files remain", func() bool { return !remains() })
	return time.Since(killed)
}

// lastLine returns the last line of a text.
func lastLine(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1] + "\n"
}

// find returns the living processes of the job whose command line begins with these arguments, each followed by a zero byte.
func (p *process) find(arguments string) (pids []int) {
	for _, pid := range p.alive() {
		args, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
		if err == nil && strings.HasPrefix(string(args), arguments) {
			if state, _ := p.stat(pid); state != "Z" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
