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

	"github.com/ibrun/ibrun/mpi"
)

// checked is an MPI program of two ranks. For the given time they send each other messages of random lengths, and check every
// byte and the order. If idle is true they wait for each other instead, and exchange one message afterwards. Rank 0 prints how
// many messages it has received.
func checked(args []string) error {
	period, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	if err := w.Barrier(); err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	const longest, starts = 2 << 20, 64 << 10 // of messages, in bytes; of them in content
	random := rand.New(rand.NewPCG(1, 2))     // the same at both ranks
	content := make([]byte, starts+longest)
	for i := 0; i < len(content); i += 8 {
		binary.LittleEndian.PutUint64(content[i:], random.Uint64())
	}
	end := time.Now().Add(period)
	if len(args) > 1 && w.Rank() == 0 {
		time.Sleep(period)
	}
	in, out := make([]byte, longest+16), make([]byte, longest+16)
	n := uint64(0)
	for last := false; !last; n++ {
		length := random.IntN(1 << (3 + random.IntN(19)))
		from := random.IntN(starts)
		want := content[from : from+length]
		last = w.Rank() == 0 && time.Now().After(end)
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

// soak returns whole if the soak tests run, and otherwise the short value for every run.
func soak[T any](whole, short T) T {
	if os.Getenv("IBRUN_SOAK") != "" {
		return whole
	}
	return short
}

// checkedJob starts a job of program checked with these flags on two nodes, the second one in a network of its own.
func checkedJob(t *testing.T, net network, flags []string, args ...string) *nodes {
	t.Helper()
	ns := newNodes(t, 2)
	_, port, _ := strings.Cut(ns.addr, ":")
	ns.addr = net.here + ":" + port
	args = slices.Concat([]string{"--heartbeat", soak("15s", "1m"), "-n", "2", "--tcp-interfaces", "198.18.0.0/15"}, flags,
		[]string{"rank", "checked"}, args)
	ns.list[0] = startCommand(t, 0, ns.command(0, args...))
	far := ns.command(1, args...)
	ns.list[1] = startCommand(t, 0, exec.Command("ip", append([]string{"netns", "exec", net.name}, far.Args...)...))
	for _, p := range ns.list {
		p.ready(1)
	}
	return ns
}

// wantReceived checks that the job succeeds, and returns how many messages were exchanged.
func (ns *nodes) wantReceived(limit time.Duration) int {
	ns.t.Helper()
	done := time.AfterFunc(limit, func() { // so that the test fails rather than hangs
		for _, p := range ns.list {
			for _, pid := range p.alive() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
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

// tool runs a command, which a package of the system has.
func tool(t *testing.T, words ...string) {
	t.Helper()
	if _, err := exec.LookPath(words[0]); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("needs apt-get install iproute2 nftables")
	}
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

// drop makes the node in the network lose packets in both directions, chosen by a rule of nft. It returns a function that ends
// it.
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
	for _, flags := range soak([][]string{nil, {"--encrypt"}}, [][]string{nil}) {
		t.Run("flags "+strings.Join(flags, " "), func(t *testing.T) { testResetConnections(t, flags) })
	}
}

func testResetConnections(t *testing.T, flags []string) {
	t.Parallel()
	net := newNetwork(t)
	period, every := soak(time.Minute, time.Second), soak(time.Second, 150*time.Millisecond)
	ns := checkedJob(t, net, flags, period.String())
	resets := 0
	for end := time.Now().Add(period); time.Now().Before(end); resets++ {
		time.Sleep(every)
		tool(t, "ss", "-K", "dst", net.there)
	}
	t.Logf("%d messages, with %d resets of all connections", ns.wantReceived(time.Minute), resets)
}

// TestSilentNode: a job goes on after all processes of a node were stopped, or all packets were dropped, for less than
// --heartbeat.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stopped", "dropped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			net := newNetwork(t)
			times, silent := soak(10, 1), soak(10*time.Second, time.Second)
			ns := checkedJob(t, net, nil, (time.Duration(times) * (silent + soak(3*time.Second, 500*time.Millisecond))).String())
			for range times {
				time.Sleep(soak(3*time.Second, 200*time.Millisecond))
				end := func() { ns.list[1].signalAll(syscall.SIGCONT) }
				if how == "stopped" {
					ns.list[1].signalAll(syscall.SIGSTOP)
				} else {
					end = net.drop(t, "")
				}
				time.Sleep(silent)
				end()
			}
			t.Logf("%d messages, %s for %v %d times", ns.wantReceived(2*time.Minute), how, silent, times)
		})
	}
}

// TestBothSilent: a job goes on after node 0 is stopped while it still has to read what the other node, which was stopped
// before, has sent. Neither node is silent for as long as --heartbeat, but together they are.
func TestBothSilent(t *testing.T) {
	t.Parallel()
	times, silent := soak(5, 1), soak(10*time.Second, time.Second)
	ns := checkedJob(t, newNetwork(t), nil, (time.Duration(times) * (2*silent + soak(3*time.Second, 500*time.Millisecond))).String())
	for range times {
		time.Sleep(silent / 4)
		ns.list[1].signalAll(syscall.SIGSTOP)
		time.Sleep(silent * 9 / 10)
		ns.list[0].signalAll(syscall.SIGSTOP)
		time.Sleep(silent / 10)
		ns.list[1].signalAll(syscall.SIGCONT)
		time.Sleep(silent * 9 / 10)
		ns.list[0].signalAll(syscall.SIGCONT)
	}
	t.Logf("%d messages, each node stopped for %v %d times", ns.wantReceived(2*time.Minute), silent, times)
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
		{"idle", 20, soak(100*time.Second, time.Second), []string{"idle"}},
		{"traffic", 30, soak(45*time.Second, time.Second), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			inParallel(t, soak(10, 1), func(t *testing.T, _ int) {
				net := newNetwork(t)
				ns := checkedJob(t, net, nil, append([]string{c.period.String()}, c.args...)...)
				end := net.drop(t, fmt.Sprintf("numgen random mod 100 < %d", c.loss))
				time.Sleep(c.period)
				end()
				t.Logf("%d messages at a loss of %d %% in each direction for %v", ns.wantReceived(2*time.Minute), c.loss, c.period)
			})
		})
	}
}
