//go:build linux

package rdma_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// loseLong makes both nodes lose the RoCE packets of at least so many bytes that they send, a power of 2 of at least 1024, until
// the test ends or the returned function is called.
func loseLong(t *testing.T, nodes []live.Node, bytes int) (end func()) {
	t.Helper()
	const all = "match ip protocol 17 0xff match ip dport 4791 0xffff "
	commands := []string{"qdisc add dev eth0 root handle 1: prio", "qdisc add dev eth0 parent 1:3 netem loss 100%"}
	for bit := bytes; bit <= 4096; bit *= 2 { // the length is at byte 2 of the IP header
		commands = append(commands, fmt.Sprintf("filter add dev eth0 parent 1: protocol ip u32 %smatch u16 %#x %#x at 2 flowid 1:3",
			all, bit, bit))
	}
	lossy := true
	end = func() {
		for _, n := range nodes {
			if lossy {
				runTC(t, n, "qdisc delete dev eth0 root")
			}
		}
		lossy = false
	}
	t.Cleanup(end)
	for _, n := range nodes {
		for _, c := range commands {
			runTC(t, n, c)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return end
}

// setMTU sets the MTU of the interface of a node until the test ends.
func setMTU(t *testing.T, n live.Node, mtu int) {
	t.Helper()
	set := func(mtu int) {
		if out, err := n.Command("ip", "link", "set", "eth0", "mtu", fmt.Sprint(mtu)).CombinedOutput(); err != nil {
			t.Fatalf("node %d: %v %s", n.Number, err, out)
		}
	}
	set(mtu)
	t.Cleanup(func() { set(1500) })
}

// TestLiveLongPacketsLost: the network between two machines drops long packets. If shorter ones hold what is sent, the packets
// become smaller, and the caller gets no error. Otherwise the peer is lost, and the error names the cause. IBRUN_SOAK=1 makes ten
// tries of each.
func TestLiveLongPacketsLost(t *testing.T) {
	for _, retries := range []uint8{0, 2} { // without a limit, as the driver has it, and as other devices do
		for _, jumbo := range []bool{false, true} {
			for _, when := range []string{"from the start", "later", "after other connections"} {
				if when == "after other connections" && retries == 0 {
					continue // no connection breaks
				}
				for try := range soaktest.Choose(10, 1) { // the end of each restores the network
					t.Run(fmt.Sprintf("retries %d, jumbo %v, %s, try %d", retries, jumbo, when, try), func(t *testing.T) {
						testLongPacketsLost(t, retries, jumbo, when)
					})
				}
			}
		}
	}
}

func testLongPacketsLost(t *testing.T, retries uint8, jumbo bool, when string) {
	nodes := live.Nodes(t, 2)
	lost := 1024
	if jumbo {
		lost = 2048
		for _, n := range nodes {
			setMTU(t, n, 9000)
		}
	}
	p := startWith(t, nodes[1], 64<<10, retries, heartbeat)
	switch when {
	case "later":
		p.echo(20)
		p.endRead(1, p.beginRead(1))
	case "after other connections":
		p.echo(20)
		end := loseLong(t, nodes, 1024)
		p.until("the end of a connection", func() bool {
			_ = p.ep.Send(nil, make([]byte, 2000)) // ErrAgain, once there is no room
			return rdma.Connections(p.ep) > 1
		})
		end()
		p.endRead(1, p.beginRead(1))
		p.got = nil
	}
	loseLong(t, nodes, lost)
	began, used := time.Now(), processorTime(t)
	b := p.beginRead(2)
	if jumbo {
		p.endRead(2, b)
		t.Logf("the read took %v", time.Since(began).Round(time.Millisecond))
		return
	}
	p.until("the loss", func() bool { return p.down != nil })
	took := time.Since(began)
	t.Logf("lost after %v, with %.1f %% of a processor: %v", took.Round(time.Millisecond),
		100*float64(processorTime(t)-used)/float64(took), p.down)
	if !errors.Is(p.down, fabric.ErrPeerDown) || errors.Is(p.down, fabric.ErrPeerClosed) ||
		!strings.Contains(p.down.Error(), "small packets arrive, large ones do not") {
		t.Errorf("the peer is lost by: %v", p.down)
	}
	if err := p.other.Wait(); err != nil { // it has lost this one as well
		t.Errorf("the other peer: %v", err)
	}
}

// processorTime returns how much processor time this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
