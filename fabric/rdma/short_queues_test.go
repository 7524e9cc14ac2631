//go:build linux

package rdma

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// shortQueues are numbers of requests that a device may allow in flight on a queue pair.
var shortQueues = []uint32{devices.MinDepth, 5, 7, 31, 32, 63}

// TestSimulatedCreditsOfShortQueues: a process that polls only until it has received the next message grants credits for those
// before, however few requests its device allows in flight. Otherwise the sender, which alone polls then, would wait for ever.
func TestSimulatedCreditsOfShortQueues(t *testing.T) {
	for _, depth := range shortQueues {
		for _, srq := range []bool{true, false} {
			t.Run(fmt.Sprintf("depth %d, SRQ %v", depth, srq), func(t *testing.T) {
				net := verbstest.NewSimulatedAdapters(func() int { return 0 })
				net.SetDevice("a", func(d *verbstest.SimulatedDevice) {
					d.Attr.MaxQPWR = depth
					if !srq {
						d.Attr.MaxSRQ = 0
					}
				})
				ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
				connectPeers(t, ds[0], ds[1])
				for n := range 1000 {
					sendAlone(t, ds[0], n)
					receiveOne(t, ds[1])
				}
			})
		}
	}
}

// sendAlone sends message n to peer 1. Only the sender polls meanwhile.
func sendAlone(t *testing.T, a *domain, n int) {
	t.Helper()
	for range 4 * maxFastPolls {
		err := a.eps[1].Send([]byte("message"), nil)
		if err == nil {
			return
		}
		if err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, a, 1)
	}
	t.Fatalf("message %d cannot be sent: the peer has granted %d", n, a.eps[1].msgs.Out.Grant)
}

// receiveOne polls until a message has arrived.
func receiveOne(t *testing.T, b *domain) {
	t.Helper()
	var evs [1]fabric.Event
	for range 4 * maxFastPolls {
		if n, err := b.Poll(evs[:]); err != nil {
			t.Fatal(err)
		} else if n == 1 {
			return
		}
	}
	t.Fatal("no message arrives")
}

// TestSimulatedShortQueuesConformance runs the suite on devices that allow few requests in flight, with IBRUN_SOAK=1.
func TestSimulatedShortQueuesConformance(t *testing.T) {
	if !soaktest.On() {
		t.Skip("runs with IBRUN_SOAK=1")
	}
	for _, depth := range shortQueues {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
				net := verbstest.NewSimulatedAdapters(func() int { return 0 })
				net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPWR = depth })
				tr := &Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node("a")}
				rand.Read(tr.Key[:])
				return suitePeers(tb, slices.Repeat([]*Transport{tr}, n))
			})
		})
	}
}
