package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi"
)

// checked is an MPI program of two ranks. Until a FIFO is closed they send each other messages of random lengths, and check every
// byte and the order. If there is another argument they wait for each other instead, and exchange one message afterwards. Rank 0
// prints how many messages it has received.
func checked(args []string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	if err := w.Barrier(); err != nil {
		return err
	}
	ended := make(<-chan struct{}) // at rank 1 never
	if w.Rank() == 0 {
		if ended, err = whenClosed(args[0]); err != nil {
			return err
		}
	}
	fmt.Println("ready", os.Getpid())
	const longest, starts = 2 << 20, 64 << 10 // of messages, in bytes; of them in content
	random := rand.New(rand.NewPCG(1, 2))     // the same at both ranks
	content := make([]byte, starts+longest)
	for i := 0; i < len(content); i += 8 {
		binary.LittleEndian.PutUint64(content[i:], random.Uint64())
	}
	if len(args) > 1 && w.Rank() == 0 {
		<-ended
	}
	in, out := make([]byte, longest+16), make([]byte, longest+16)
	n := uint64(0)
	for last := false; !last; n++ {
		length := random.IntN(1 << (3 + random.IntN(19)))
		from := random.IntN(starts)
		want := content[from : from+length]
		select {
		case <-ended:
			last = true
		default:
		}
		binary.LittleEndian.PutUint64(out, n)
		out[8] = 0
		if last {
			out[8] = 1
		}
		copy(out[16:], want)
		r, err := mpi.Irecv(w, in[:16+length], 1-w.Rank(), 3)
		if err != nil {
			return err
		}
		if err := mpi.Send(w, out[:16+length], 1-w.Rank(), 3); err != nil {
			return err
		}
		if err := mpi.Waitall([]mpi.Request{r}, nil); err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint64(in); got != n || !bytes.Equal(in[16:16+length], want) {
			return fmt.Errorf("message %d instead of %d, or wrong bytes, of %d", got, n, length)
		}
		last = last || in[8] == 1
	}
	if w.Rank() == 0 {
		fmt.Println("received", n)
	}
	return p.Finalize()
}

// checkedJob is jobUntil of program checked.
func checkedJob(t *testing.T, site []network, flags []string, args ...string) (ns *nodes, end func()) {
	t.Helper()
	return jobUntil(t, site, flags, "checked", args...)
}

// jobUntil starts a job of two ranks with these flags on the two nodes of a site. The first argument of the program is a FIFO,
// which end closes.
func jobUntil(t *testing.T, site []network, flags []string, program string, args ...string) (ns *nodes, end func()) {
	t.Helper()
	fifo := openFIFO(t)
	ns = newNodes(t, 2)
	_, port, _ := strings.Cut(ns.addr, ":")
	ns.addr = site[0].addr + ":" + port
	flags = append([]string{"--heartbeat", soaktest.Choose("15s", "1m"), "-n", "2", "--tcp-interfaces", "198.18.0.0/15"}, flags...)
	args = slices.Concat(flags, []string{"rank", program, fifo.Name()}, args)
	for k := range ns.list {
		ns.list[k] = startCommand(t, 0, site[k].inside(ns.command(k, args...)))
	}
	for _, p := range ns.list {
		p.ready(1)
	}
	return ns, func() { fifo.Close() }
}

// wantReceived checks that the job succeeds, and returns how many messages were exchanged.
func (ns *nodes) wantReceived() int {
	ns.t.Helper()
	done := time.AfterFunc(waittest.Limit, func() { // so that the test fails rather than hangs
		for _, p := range ns.list {
			p.kill()
		}
	})
	text, err := io.ReadAll(ns.list[0].out)
	done.Stop()
	n, found := 0, strings.HasPrefix(string(text), "received ")
	if found {
		n, err = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(text), "received ")))
	}
	if err != nil || !found {
		ns.t.Errorf("rank 0 wrote %q: %v", text, err)
	}
	ns.wantCode(0, "")
	return n
}

// tool runs a command of a package that newSite or needsFilter has found.
func tool(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// needsFilter skips the test if it cannot make networks lose packets.
func needsFilter(t *testing.T) {
	t.Helper()
	needtest.Networks(t)
	needtest.Program(t, "nft", "nftables")
}

// drop makes the node in the network lose packets in both directions, chosen by a rule of nft. It returns a function that ends
// it. The test has called needsFilter.
func (n network) drop(t *testing.T, rule string) func() {
	t.Helper()
	run := func(rules string) {
		t.Helper()
		tool(t, "ip", "netns", "exec", n.name, "nft", rules)
	}
	run("add table inet faults; add chain inet faults in { type filter hook input priority 0; }; " +
		"add chain inet faults out { type filter hook output priority 0; }; " +
		"add rule inet faults in " + rule + " drop; add rule inet faults out " + rule + " drop")
	return func() { run("delete table inet faults") }
}

// TestResetConnections: if all connections between two nodes are reset again and again, no message is lost or doubled. IBRUN_SOAK
// tests that with encryption, too.
func TestResetConnections(t *testing.T) {
	t.Parallel()
	for _, flags := range soaktest.Choose([][]string{nil, {"--encrypt"}}, [][]string{nil}) {
		t.Run("flags "+strings.Join(flags, " "), func(t *testing.T) { testResetConnections(t, flags) })
	}
}

func testResetConnections(t *testing.T, flags []string) {
	t.Parallel()
	site := newSite(t, 2)
	resets, every := soaktest.Choose(60, 7), soaktest.Choose(time.Second, 150*time.Millisecond)
	ns, end := checkedJob(t, site, flags)
	for range resets {
		waittest.Elapse(t, every, "messages are exchanged over the connections")
		tool(t, "ip", "netns", "exec", site[0].name, "ss", "-K", "dst", site[1].addr)
	}
	end()
	t.Logf("%d messages, with %d resets of all connections", ns.wantReceived(), resets)
}

// TestSilentNode: a job goes on after all processes of a node were stopped, or all packets were dropped, for less than
// --heartbeat.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stopped", "dropped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			if how == "dropped" {
				needsFilter(t)
			}
			site := newSite(t, 2)
			times, silent := soaktest.Choose(10, 1), soaktest.Choose(10*time.Second, time.Second)
			ns, end := checkedJob(t, site, nil)
			for range times {
				waittest.Elapse(t, soaktest.Choose(3*time.Second, 200*time.Millisecond), "messages are exchanged")
				goOn := func() { ns.list[1].signalAll(syscall.SIGCONT) }
				if how == "stopped" {
					ns.list[1].signalAll(syscall.SIGSTOP)
				} else {
					goOn = site[1].drop(t, "")
				}
				waittest.Elapse(t, silent, "the silent node is not lost")
				goOn()
			}
			end()
			t.Logf("%d messages, %s for %v %d times", ns.wantReceived(), how, silent, times)
		})
	}
}

// TestBothSilent: a job goes on after node 0 is stopped while it still has to read what the other node, which was stopped
// before, has sent. Neither node is silent for as long as --heartbeat, but together they are.
func TestBothSilent(t *testing.T) {
	t.Parallel()
	times, silent := soaktest.Choose(5, 1), soaktest.Choose(10*time.Second, time.Second)
	ns, end := checkedJob(t, newSite(t, 2), nil)
	for range times {
		waittest.Elapse(t, silent/4, "messages are exchanged")
		ns.list[1].signalAll(syscall.SIGSTOP)
		waittest.Elapse(t, silent*9/10, "node 1 is not lost")
		ns.list[0].signalAll(syscall.SIGSTOP)
		waittest.Elapse(t, silent/10, "both nodes are stopped for a while")
		ns.list[1].signalAll(syscall.SIGCONT)
		waittest.Elapse(t, silent*9/10, "node 0 is not lost")
		ns.list[0].signalAll(syscall.SIGCONT)
	}
	end()
	t.Logf("%d messages, each node stopped for %v %d times", ns.wantReceived(), silent, times)
}

// signalAll sends a signal to all processes of the job on the node.
func (p *process) signalAll(sig syscall.Signal) {
	for _, pid := range p.alive() {
		p.signal(pid, sig)
	}
}

// TestPacketLoss: neither an idle job nor one with traffic is lost because packets are.
func TestPacketLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		loss   int // in percent
		period time.Duration
		args   []string
	}{
		{"idle", 20, soaktest.Choose(100*time.Second, time.Second), []string{"idle"}},
		{"traffic", 30, soaktest.Choose(45*time.Second, time.Second), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inParallel(t, soaktest.Choose(10, 1), func(t *testing.T, _ int) {
				needsFilter(t)
				site := newSite(t, 2)
				ns, end := checkedJob(t, site, nil, c.args...)
				recovers := site[1].drop(t, fmt.Sprintf("numgen random mod 100 < %d", c.loss))
				waittest.Elapse(t, c.period, "the job is not lost")
				end()
				recovers()
				t.Logf("%d messages at a loss of %d %% in each direction for %v", ns.wantReceived(), c.loss, c.period)
			})
		})
	}
}

// newJumboSite returns a site of two networks whose interfaces carry packets of up to 9000 bytes, and no longer ones that the
// kernel has joined. loseLong may be called for it.
func newJumboSite(t *testing.T) []network {
	t.Helper()
	needsFilter(t)
	site := newSite(t, 2)
	hub := strings.TrimSuffix(site[0].name, "n0")
	for k, n := range site {
		tool(t, "ip", "-n", hub, "link", "set", "port"+strconv.Itoa(k), "mtu", "9000")
		tool(t, "ip", "-n", n.name, "link", "set", "eth0", "mtu", "9000", "gso_max_segs", "1")
	}
	return site
}

// loseLong makes nodes lose packets that arrive with more than 1500 bytes, as a switch of that MTU between them does.
func loseLong(t *testing.T, receivers ...network) {
	t.Helper()
	for _, n := range receivers {
		tool(t, "ip", "netns", "exec", n.name, "nft", "add table inet hole; add chain inet hole in { type filter hook input "+
			"priority 0; }; add rule inet hole in meta length > 1500 drop")
	}
}

// TestLongPacketsLost: if the network loses long packets, and passes short ones, the job ends, and the reason is named: from the
// start, after a while, and after connections were made again. With IBRUN_SOAK=1 each is tried ten times, also with encryption,
// whose handshake has long packets.
func TestLongPacketsLost(t *testing.T) {
	t.Parallel()
	for _, flags := range soaktest.Choose([][]string{nil, {"--check"}, {"--encrypt"}}, [][]string{nil}) {
		for _, resets := range soaktest.Choose([]int{-1, 0, 3}, []int{-1}) { // -1: from the start
			if resets < 0 && slices.Contains(flags, "--encrypt") {
				continue // the nodes do not join; until --join-timeout they print the reason
			}
			t.Run(fmt.Sprintf("flags %v, resets %d", flags, resets), func(t *testing.T) {
				inParallel(t, soaktest.Choose(10, 1), func(t *testing.T, _ int) { testLongPacketsLost(t, flags, resets) })
			})
		}
	}
}

func testLongPacketsLost(t *testing.T, flags []string, resets int) {
	site := newJumboSite(t)
	if resets < 0 {
		loseLong(t, site...)
	}
	ns, _ := checkedJob(t, site, append([]string{"--heartbeat", "5s"}, flags...))
	if resets >= 0 {
		waittest.Elapse(t, time.Second, "messages are exchanged")
		for range resets {
			tool(t, "ip", "netns", "exec", site[0].name, "ss", "-K", "dst", site[1].addr)
			waittest.Elapse(t, time.Second/2, "messages are exchanged over other connections")
		}
		loseLong(t, site...)
	}
	text := ""
	for k, p := range ns.list {
		if code := p.wait(); code == 0 {
			t.Errorf("node %d ended with 0", k)
		}
		text += p.stderrText()
	}
	if !strings.Contains(text, "MTU") || strings.Contains(text, "deadlock, each rank") {
		t.Errorf("the job ended with:\n%s", text)
	}
}

// TestLongPacketsLostOneWay: if the network loses long packets between the nodes in one direction only, the job ends, and both
// nodes name the reason: neither says that the ibrun of the other was killed. With IBRUN_SOAK=1 each direction is tried ten
// times.
func TestLongPacketsLostOneWay(t *testing.T) {
	t.Parallel()
	for to := range 2 {
		t.Run(fmt.Sprintf("to node %d", to), func(t *testing.T) {
			inParallel(t, soaktest.Choose(10, 1), func(t *testing.T, _ int) { testLongPacketsLostOneWay(t, to) })
		})
	}
}

func testLongPacketsLostOneWay(t *testing.T, to int) {
	site := newJumboSite(t)
	ns, put := jobUntil(t, site, []string{"--heartbeat", "5s"}, "pmi-put", strconv.Itoa(1-to))
	loseLong(t, site[to])
	put()
	for k, p := range ns.list {
		code, text := p.wait(), p.stderrText()
		if code != 1 || !strings.Contains(text, "long packets may not arrive; is the MTU of") &&
			!strings.Contains(text, "long packets do not arrive: packets with 8948 bytes of data are lost") {
			t.Errorf("node %d ended with %d:\n%s", k, code, text)
		}
	}
}

// TestLongMessagesLostOneWay: if the network loses long packets between two ranks in one direction only, whichever of the two
// loses the other first, it names the reason. With IBRUN_SOAK=1 each direction is tried ten times, also with encryption.
func TestLongMessagesLostOneWay(t *testing.T) {
	t.Parallel()
	for _, flags := range soaktest.Choose([][]string{nil, {"--encrypt"}}, [][]string{nil}) {
		for to := range 2 {
			t.Run(fmt.Sprintf("flags %v, to node %d", flags, to), func(t *testing.T) {
				inParallel(t, soaktest.Choose(10, 1), func(t *testing.T, _ int) { testLongMessagesLostOneWay(t, flags, to) })
			})
		}
	}
}

func testLongMessagesLostOneWay(t *testing.T, flags []string, to int) {
	site := newJumboSite(t)
	ns, _ := checkedJob(t, site, append([]string{"--heartbeat", "5s"}, flags...))
	waittest.Elapse(t, time.Second, "messages are exchanged")
	loseLong(t, site[to])
	for k, p := range ns.list {
		code, text := p.wait(), p.stderrText()
		for line := range strings.Lines(text) {
			if strings.Contains(line, "tcp: peer") && !strings.Contains(line, "MTU") {
				t.Errorf("node %d: %s", k, line)
			}
		}
		if code == 0 || !strings.Contains(text, "MTU") {
			t.Errorf("node %d ended with %d:\n%s", k, code, text)
		}
	}
}

// TestSlowNetwork: while bytes arrive, however slowly, ranks that wait for each other are not called deadlocked, and the job goes
// on. With IBRUN_SOAK=1 the network carries 4 kB/s for 40 s.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	site := newSite(t, 2)
	rate, period := soaktest.Choose("32kbit", "256kbit"), soaktest.Choose(40*time.Second, 2*time.Second)
	ns, end := checkedJob(t, site, []string{"--heartbeat", "15s", "--check", "--deadlock-report", soaktest.Choose("2s", "500ms")})
	for _, n := range site {
		tool(t, "ip", "netns", "exec", n.name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "3000",
			"limit", "8000")
	}
	waittest.Elapse(t, period, "no deadlock is reported")
	for _, n := range site {
		tool(t, "ip", "netns", "exec", n.name, "tc", "qdisc", "del", "dev", "eth0", "root")
	}
	end()
	t.Logf("%d messages, %s for %v", ns.wantReceived(), rate, period)
	for k, p := range ns.list {
		if text := p.stderrText(); strings.Contains(text, "every rank has waited") {
			t.Errorf("node %d:\n%s", k, text)
		}
	}
}
