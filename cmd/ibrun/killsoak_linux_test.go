package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// faults are what TestKillAtRandom and TestCutOff do to a node, with the words by which the ibruns must name it.
var faults = []struct{ name, culprit string }{
	{"ibrun", "the ibrun of node %d (n%[1]d) at "},
	{"agent", "the agent on n%d (pid "},
	{"rank", ""},            // with its pid
	{"rank by SIGTERM", ""}, // which could also be its reaction to the failure of another process
	{"ibrun and agent", "the ibrun of node %d (n%[1]d) at "},
	{"watcher", "the process that watches ibrun and its agent (pid "},
	{"link down", "node %d (n%[1]d) at "},
	{"silent", "node %d (n%[1]d) at "},
}

const (
	// kills is the number of faults that kill a process. The others cut the node off.
	kills = 6
	// trafficTime is how long the ranks exchange messages, and killWithin the time after the start of the agents in which the
	// fault occurs: before, in and after the traffic.
	trafficTime = 150 * time.Millisecond
	killWithin  = 400 * time.Millisecond
	// leftWithin is how long after a kill processes and files may exist: the grace of half a second after a failure, and one
	// second. cutOffMargin is the same for a node that is cut off, in addition to the heartbeat.
	leftWithin   = 1500 * time.Millisecond
	cutOffMargin = 3 * time.Second
)

// cutOffHeartbeat returns how long a node that is cut off may be silent. All others must be heard within that time.
func cutOffHeartbeat() time.Duration { return soaktest.Choose(2*time.Second, 10*time.Second) }

// TestKillAtRandom kills processes of jobs on one and on several nodes at random times. Afterwards nothing of the job is left,
// and the surviving ibruns name the process that was killed. With IBRUN_SOAK it kills each kind a hundred times on a machine of
// its own, on node 0 of three, and on another node, and bounds the time.
func TestKillAtRandom(t *testing.T) {
	t.Parallel()
	if !soaktest.On() {
		random := newRandom(t)
		for range 3 {
			count := 1 + random.IntN(2)
			victim, kind := random.IntN(count), random.IntN(kills)
			notLate(t, count, func() string {
				_, wrong := newFaultJob(t, nil, count, 2, victim).try(random, kind)
				return wrong
			})
		}
		return
	}
	for kind := range kills {
		t.Run(faults[kind].name, func(t *testing.T) {
			t.Parallel()
			random, site := newRandom(t), newSite(t, 3)
			repeat(t, "one node", leftWithin, func() time.Duration { return newFaultJob(t, nil, 1, 2, 0).test(random, kind) })
			repeat(t, "node 0 of 3", leftWithin, func() time.Duration { return newFaultJob(t, site, 3, 2, 0).test(random, kind) })
			repeat(t, "node 1 or 2 of 3", leftWithin, func() time.Duration {
				return newFaultJob(t, site, 3, 2, 1+random.IntN(2)).test(random, kind)
			})
		})
	}
}

// TestCutOff cuts off a node of three: its interface goes down, or all of its packets are dropped. All ibruns end soon after the
// heartbeat. They name the node that is cut off, also if that is node 0, and otherwise say that the connection is lost. Each kind
// of cut and each node occurs. With IBRUN_SOAK it cuts off each node in each way, a hundred times.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for kind := kills; kind < len(faults); kind++ {
		for victim := range 2 {
			if !soaktest.On() && victim != kind%2 {
				continue
			}
			t.Run(fmt.Sprintf("%s node %d", faults[kind].name, victim), func(t *testing.T) {
				t.Parallel()
				needsFilter(t)
				random, site := newRandom(t), newSite(t, 3)
				if !soaktest.On() {
					newFaultJob(t, site, 3, 1, victim).test(random, kind)
					return
				}
				repeat(t, t.Name(), cutOffHeartbeat()+cutOffMargin, func() time.Duration {
					return newFaultJob(t, site, 3, 2, victim*(1+random.IntN(2))).test(random, kind)
				})
			})
		}
	}
}

// notLate runs a test that kills something of a job on this many nodes, and fails if it returns what is wrong. If there are
// several nodes, it tries at most three times: if one of them notices the death a second later than another one notices the
// consequence, the victim is not named. TestFirstInTimeOnNodes is exact, and so are these tests with IBRUN_SOAK.
func notLate(t *testing.T, count int, test func() (wrong string)) {
	t.Helper()
	wrong := ""
	for range min(1+2*(count-1), 3) {
		if wrong = test(); wrong == "" {
			return
		}
		t.Log(wrong)
	}
	t.Error(wrong)
}

// newRandom returns a source of random numbers with the seed of the test.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(soaktest.Seed(t), 0))
}

// repeat runs a test a hundred times. It logs how long something of a job was left, and checks that this was within the limit.
func repeat(t *testing.T, what string, limit time.Duration, test func() time.Duration) {
	t.Helper()
	const rounds = 100
	var slowest time.Duration
	for range rounds {
		slowest = max(slowest, test())
	}
	t.Logf("%d times %s: nothing was left after %v", rounds, what, slowest.Round(time.Millisecond))
	if slowest > limit {
		t.Errorf("%s: something was left for %v", what, slowest)
	}
}

// faultJob is a job of which a node, the victim, suffers a fault.
type faultJob struct {
	*nodes
	site   []network // nil: all nodes share the network of this machine
	victim int
	left   []string // what must not be left of the job: directories
}

// newFaultJob starts a job with this many ranks on each of count nodes, and waits until the agents run.
func newFaultJob(t *testing.T, site []network, count, ranks, victim int) *faultJob {
	t.Helper()
	j := &faultJob{nodes: newNodes(t, count), site: site, victim: victim}
	if site != nil {
		_, port, _ := strings.Cut(j.addr, ":")
		j.addr = site[0].addr + ":" + port
	}
	heartbeat := cutOffHeartbeat()
	if site == nil {
		heartbeat = time.Minute // no node is cut off
	}
	var dirs []string
	for k := range j.list {
		args := []string{"--heartbeat", heartbeat.String(), "-n", fmt.Sprint(ranks * count), "rank", "traffic",
			trafficTime.String()}
		cmd := exec.Command("ibrun", append([]string{"--node-name", "n0"}, args...)...)
		if count > 1 {
			cmd = j.command(k, args...)
		}
		if site != nil {
			cmd = site[k].inside(cmd)
		}
		dirs = append(dirs, inRuntimeDir(t, cmd))
		j.list[k] = startCommand(t, 0, cmd)
	}
	for k, p := range j.list {
		p.eventually("no agent", func() bool { return p.find("ibrun\x00agent\x00") != nil })
		j.left = append(append(j.left, dirs[k]), controlGroups(t, dirs[k])...)
	}
	return j
}

// test makes the victim suffer a fault at a random time, and returns how long something of the job was left.
func (j *faultJob) test(random *rand.Rand, kind int) time.Duration {
	j.t.Helper()
	took, wrong := j.try(random, kind)
	if wrong != "" {
		j.t.Error(wrong)
	}
	return took
}

// try is test, but returns what is wrong with the end of the job.
func (j *faultJob) try(random *rand.Rand, kind int) (took time.Duration, wrong string) {
	j.t.Helper()
	waittest.Elapse(j.t, time.Duration(random.Int64N(int64(killWithin))), "the job comes to a random state")
	p := j.list[j.victim]
	culprit, code, pids, sig := faults[kind].culprit, 1, []int{}, syscall.SIGKILL
	if strings.Contains(culprit, "%") {
		culprit = fmt.Sprintf(culprit, j.victim)
	}
	says := func(int) string { return culprit }
	end := func() {}
	switch faults[kind].name {
	case "ibrun":
		pids = []int{p.cmd.Process.Pid}
	case "agent":
		pids = []int{p.agent()}
	case "ibrun and agent":
		pids = []int{p.cmd.Process.Pid, p.agent()}
	case "watcher":
		pids = []int{p.watcher()}
	case "rank", "rank by SIGTERM":
		var ranks []int
		p.eventually("too few ranks", func() bool { ranks = p.find("rank\x00traffic\x00"); return len(ranks) == 2 })
		slices.Sort(ranks)
		pids = ranks[random.IntN(2):][:1]
		if faults[kind].name != "rank" {
			sig = syscall.SIGTERM
		}
		culprit, code = fmt.Sprintf("(pid %d) was killed by signal %d (%s)", pids[0], sig, unix.SignalName(sig)), 128+int(sig)
	case "link down":
		says = func(k int) string { return j.saysCutOff(k, "its interface eth0 ("+j.site[j.victim].addr+") is down") }
		tool(j.t, "ip", "-n", j.site[j.victim].name, "link", "set", "eth0", "down")
		end = func() { tool(j.t, "ip", "-n", j.site[j.victim].name, "link", "set", "eth0", "up") }
	case "silent":
		says = func(k int) string { return j.saysCutOff(k, "") }
		end = j.site[j.victim].drop(j.t, "")
	}
	began := time.Now()
	p.killTogether(sig, pids...)
	for k, other := range j.list {
		if got := other.wait(); other == p && slices.Contains(pids, p.cmd.Process.Pid) {
			continue
		} else if text := other.stderrText(); got != code || !strings.Contains(lastLine(text), says(k)) {
			wrong += fmt.Sprintf("%s of node %d of %d at %v: node %d has exit code %d, want %d and %q in the last line of\n%s",
				faults[kind].name, j.victim, len(j.list), began, k, got, code, says(k), text)
		}
	}
	p.eventually("processes or files remain", func() bool {
		return !slices.ContainsFunc(j.list, func(p *process) bool { return len(p.alive()) > 0 }) &&
			!slices.ContainsFunc(j.left, exists)
	})
	took = time.Since(began)
	end()
	return took, wrong
}

// saysCutOff returns what the ibrun of node k says after the victim was cut off. why is what the kernel of the victim knows.
func (j *faultJob) saysCutOff(k int, why string) string {
	const own = "the network of node %d (n%[1]d) has failed: %[2]s"
	switch {
	case k == j.victim && why != "":
		return fmt.Sprintf(own, k, why)
	case k == j.victim && k == 0:
		return fmt.Sprintf(own, k, "all other nodes are silent since ")
	case k == j.victim || j.victim == 0:
		return "the connection to node 0 (n0) at " + j.addr + " is lost: no heartbeat for " + cutOffHeartbeat().String()
	}
	return fmt.Sprintf("ibrun: node %d (n%[1]d) at %[2]s:", j.victim, j.site[j.victim].addr)
}

// newSite returns n networks, one for each node of a job, which a switch connects. In each the interface is eth0.
func newSite(t *testing.T, n int) (site []network) {
	t.Helper()
	needtest.Networks(t)
	id := (os.Getpid() + int(networks.Add(1))*4099) % (1 << 14) // other users may run these tests on this machine
	hub := fmt.Sprintf("ibs%d", id)
	batch := []string{"netns add " + hub, "-n " + hub + " link add br0 type bridge", "-n " + hub + " link set br0 up"}
	for k := range n {
		name, addr := fmt.Sprintf("%sn%d", hub, k), fmt.Sprintf("198.18.0.%d", k+1)
		site = append(site, network{name, addr})
		batch = append(batch, "netns add "+name,
			fmt.Sprintf("-n %s link add port%d type veth peer name eth0 netns %s", hub, k, name),
			fmt.Sprintf("-n %s link set port%d master br0", hub, k), fmt.Sprintf("-n %s link set port%d up", hub, k),
			fmt.Sprintf("-n %s addr add %s/24 dev eth0", name, addr), "-n "+name+" link set eth0 up", "-n "+name+" link set lo up")
	}
	t.Cleanup(func() {
		for _, net := range append(site, network{name: hub}) {
			exec.Command("ip", "netns", "del", net.name).Run()
		}
	})
	for _, words := range batch {
		tool(t, append([]string{"ip"}, strings.Fields(words)...)...)
	}
	return site
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
