//go:build linux

package devices

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedReceiveQueues: an SRQ is used if it has room for two messages of each peer, or for
// as many as peers share at most.
func TestSimulatedReceiveQueues(t *testing.T) {
	const blockSlots, sharedSlots = 32, 1 << 14
	for _, c := range []struct {
		srqs, cqes uint32
		peers      int
		shared     bool
		slots      int // 0: the device is refused
	}{
		{1 << 15, 1 << 16, 3, true, 4032},
		{100, 1 << 16, 3, true, 96},
		{100, 1 << 16, 100, false, 4032},
		{100, 200 + DatagramRecvs, 80, false, 192},
		{100, 200 + DatagramRecvs, 100, true, 96}, // there is no room for queues of their own
		{0, 200 + DatagramRecvs, 100, false, 0},
		{1 << 20, 1 << 20, 20_000, true, sharedSlots},
		{1 << 12, 1 << 20, 20_000, false, 42_016},
	} {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.Attr.MaxSRQWR, d.Attr.MaxCQE = c.srqs, c.cqes })
		need := Demand{Peers: c.peers, Slots: max(4000, 2*c.peers+2000) + blockSlots, SharedSlots: sharedSlots,
			BlockSlots: blockSlots, SlotBytes: 64, Window: 64, SGE: 1, MessageBytes: cm.MessageBytes(1, 1)}
		var r Rail
		if err := r.Open(net.Node(), "a", &Config{Params: verbs.DefaultParams(), Demand: need}); err != nil {
			if c.slots != 0 || !errors.Is(err, fabric.ErrNotSupported) {
				t.Errorf("%+v: %v", c, err)
			}
			_ = r.Close()
			continue
		}
		if got := r.Granted.Slots; (r.SRQ != nil) != c.shared || got != c.slots {
			t.Errorf("%+v: shared %v, %d slots", c, r.SRQ != nil, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
