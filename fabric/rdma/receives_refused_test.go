//go:build linux

package rdma

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedReceivesRefused: a device does not take the receives of messages that were delivered, with a shared receive queue
// or without one. It is asked again after pauses, however often the process polls meanwhile, and the process may sleep. Messages
// arrive once the device takes them. If it goes on to refuse, it cannot be used any more.
func TestSimulatedReceivesRefused(t *testing.T) {
	for _, shared := range []bool{true, false} {
		for _, lasting := range []bool{false, true} {
			net := verbstest.NewSimulatedNetwork()
			if !shared {
				net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Attr.MaxSRQ = 0 })
			}
			ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
			connectPeers(t, ds[0], ds[1])
			connectPeers(t, ds[1], ds[0])
			receivesRefused(t, net, ds[0], ds[1], lasting)
		}
	}
}

func receivesRefused(t *testing.T, net *verbstest.SimulatedNetwork, a, b *domain, lasting bool) {
	t.Helper()
	var refused atomic.Int32
	net.RefuseOn(func(_ string, c verbstest.SimulatedCall) error {
		if c == verbstest.CallRecv || c == verbstest.CallSRQRecv {
			refused.Add(1)
			return syscall.EAGAIN
		}
		return nil
	})
	send(t, a, b)
	pollBoth(t, []*domain{b}, "a receive is refused", b.recvs.Incomplete)
	b.recvs.Retry.Refusals, b.recvs.Retry.At = 0, 0 // as if the process had not asked again yet
	if fd, ready, err := b.Arm(); err != nil || !ready && !waittest.Readable(t, fd, waittest.Limit) {
		t.Fatalf("nothing wakes the process to ask the device again: %v", err)
	}
	pollBoth(t, []*domain{b}, "the device is asked again", func() bool { return b.recvs.Retry.Refusals > 0 })
	for tries := int16(1); tries < liveness.MinFailures; tries++ {
		b.recvs.Retry.At = liveness.Never // the pause takes long
		before := refused.Load()
		if evs := pollTimes(t, b, 20*maxFastPolls); len(evs) > 0 || refused.Load() != before || b.recvs.Retry.Refusals != tries {
			t.Fatalf("after %d tries and a pause: %+v, %d calls, %d tries", tries, evs, refused.Load()-before, b.recvs.Retry.Refusals)
		}
		mayArm(t, b)
		b.recvs.Retry.At = 0
		pollBoth(t, []*domain{b}, "the device is asked again", func() bool {
			return b.recvs.Retry.Refusals > tries || b.takeover.lost != nil
		})
	}
	if b.takeover.lost != nil {
		t.Fatal(b.takeover.lost)
	}
	if lasting {
		b.recvs.Retry.At, b.recvs.Retry.Since = 0, b.recvs.Retry.Since-liveness.MaxSeries
		pollBoth(t, []*domain{b}, "the device is given up", func() bool { return b.takeover.lost != nil })
		if !errors.Is(b.takeover.lost, syscall.EAGAIN) {
			t.Error(b.takeover.lost)
		}
		closeAtOnce([]*domain{a, b})
	}
	net.RefuseOn(nil)
	b.recvs.Retry.At = 0
	if !lasting {
		for range 3 {
			send(t, a, b)
			pollBoth(t, []*domain{b}, "all receives are posted", func() bool {
				return !b.recvs.Incomplete() && b.recvs.Retry.Refusals == 0
			})
		}
	}
}
