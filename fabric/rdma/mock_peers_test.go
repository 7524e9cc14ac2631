//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"math"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/internal/ibvmock"
)

// openMockCrowd opens a domain and n peers on two devices of the mock. They are not connected.
func openMockCrowd(tb testing.TB, n int) *crowd {
	tb.Helper()
	lib := ibvmock.Load(tb)
	network := mockNetwork{lib.NewDevice("mlx5_roce"), lib.NewDevice("mlx5_roce")}
	return openCrowdOn(tb, &Transport{Network: network}, [2]string{network[0].Name, network[1].Name}, n)
}

// TestMockPeerMemory: a process opens a device and is connected to many peers, 10,000 with IBRUN_SOAK=1. Then a peer uses at most
// 16 KiB, with its share of the slots that 10,000 peers have. What C allocates is not counted.
func TestMockPeerMemory(t *testing.T) {
	n := manyPeers(300)
	heap, _ := peerMemory(t, n, func(n int) *crowd { return openMockCrowd(t, n) })
	set, err := Settings{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if slots := messages.MaxShared * set.Slot / 10_000; heap+slots > 16<<10 {
		t.Errorf("a connected peer uses %d bytes of the heap, and one of 10,000 peers %d of slots, want at most %d together",
			heap, slots, 16<<10)
	}
}

// TestMockHeartbeatTick: with 10,000 connected peers, a tick of the heartbeat takes less than 100 µs on an idle machine. Only
// IBRUN_SOAK=1 measures; else the ticks must visit all peers.
func TestMockHeartbeatTick(t *testing.T) {
	n := manyPeers(200)
	c := openMockCrowd(t, n)
	c.connect()
	c.d.clock.ReadAt = math.MaxUint // only the ticks below visit peers
	visited, ticks := 0, 0
	var total time.Duration
	for range 4 {
		before := time.Now()
		c.interval(func(visits int) {
			total += time.Since(before)
			visited, ticks = visited+visits, ticks+1
			c.drain()
			before = time.Now()
		})
	}
	if visited < 4*n {
		t.Errorf("in four intervals %d visits to %d peers", visited, n)
	}
	t.Logf("%d peers: a tick takes %v", n, total/time.Duration(ticks))
}

// BenchmarkMockTick measures a tick of a domain with many connected peers, without the answers to its probes.
func BenchmarkMockTick(b *testing.B) {
	c := openMockCrowd(b, manyPeers(2000))
	c.connect()
	benchmarkTick(b, c)
}
