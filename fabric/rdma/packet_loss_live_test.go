//go:build linux

package rdma_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// runTC runs tc on a node.
func runTC(t *testing.T, n live.Node, args string) {
	t.Helper()
	if out, err := n.Command("tc", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Errorf("node %d: tc %s: %v %s", n.Number, args, err, out)
	}
}

// dropPackets makes both nodes lose some of the packets that they send, until the test ends.
func dropPackets(t *testing.T, nodes []live.Node, share string) {
	t.Helper()
	for _, n := range nodes {
		t.Cleanup(func() { runTC(t, n, "qdisc delete dev eth0 root") })
		runTC(t, n, "qdisc add dev eth0 root netem loss "+share)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// lossHeartbeat is the default. With 3 seconds there are ten probes. If 30 % of the packets are lost, half of the round trips
// fail, so all ten fail once in a thousand times.
const lossHeartbeat = 15 * time.Second

// TestLiveLoss: much data arrives by messages, reads and writes over a network that loses packets in both directions. The
// caller gets no error. IBRUN_SOAK=1 selects larger sizes.
func TestLiveLoss(t *testing.T) {
	for _, c := range []struct {
		name, share string
		bytes, soak int
		retries     uint8 // retry count of the local device; 0: no limit
	}{
		{"2%", "2%", 4 << 20, 64 << 20, 0},
		{"30%", "30%", 128 << 10, 4 << 20, 0},
		{"30%, the device gives up", "30%", 64 << 10, 1 << 20, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := live.Nodes(t, 2)
			if soaktest.On() {
				c.bytes = c.soak
			}
			p := startWith(t, nodes[1], c.bytes, c.retries, lossHeartbeat)
			dropPackets(t, nodes, c.share)
			began := time.Now()
			b := p.beginRead(1)
			p.echo(20)
			p.endRead(1, b)
			t.Logf("%d bytes were read in %v", c.bytes, time.Since(began).Round(time.Millisecond))
			began = time.Now()
			p.writeBack(2, b)
			t.Logf("and written in %v", time.Since(began).Round(time.Millisecond))
			n := rdma.Connections(p.ep)
			t.Logf("%d connections", n)
			if c.retries > 0 && n < 2 {
				t.Error("the device has not given up")
			}
		})
	}
}

// writeBack writes other bytes to all memory that the other peer has registered, and compares the checksum that the peer
// computes.
func (p *peerProcess) writeBack(token uint64, b []byte) {
	p.t.Helper()
	for i := range b {
		b[i] = pattern(i) ^ 0x5a
	}
	region, err := p.d.Register(b)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.ep.Write(b, region, p.remote, token); err != nil {
		p.t.Fatal(err)
	}
	p.until("the end of the write", func() bool { _, ok := p.done[token]; return ok })
	if err := p.done[token]; err != nil {
		p.t.Fatal(err)
	}
	if err := p.ep.Send(nil, []byte(sumRequest)); err != nil {
		p.t.Fatal(err)
	}
	if sum := sha256.Sum256(b); string(p.receive()) != string(sum[:]) {
		p.t.Fatal("other bytes were written")
	}
}
