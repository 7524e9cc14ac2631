//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ibvmock"
)

// TestMockRails: two peers with two rails of two paths each, over calls of C. Queue pairs of each lane break, the link of the
// second rail goes down and up, and then its device is lost. Reads end with the right bytes, over the lanes that are left.
func TestMockRails(t *testing.T) {
	lib := ibvmock.Load(t)
	lib.Set("speed", 64)
	for _, profile := range []string{"mlx5_ib_lmc", "bnxt_re"} {
		t.Run(profile, func(t *testing.T) {
			network := mockNetwork{lib.NewDevice(profile), lib.NewDevice(profile)}
			testMockRails(t, lib, network)
		})
	}
}

func testMockRails(t *testing.T, lib *ibvmock.Library, network []hw.RDMADevice) {
	t.Helper()
	first, second := network[0].Name, network[1].Name
	set := Settings{Devices: []string{first, second}, Paths: 2}
	ds := openTransports(t, []*Transport{
		{Settings: set, Network: mockNetwork(network)}, {Settings: set, Network: mockNetwork(network)}})
	all, left := []cm.Lane{{}, {Rail: 0, Path: 1}, {Rail: 1, Path: 0}, {Rail: 1, Path: 1}}, []cm.Lane{{}, {Rail: 0, Path: 1}}
	connectPeers(t, ds[0], ds[1])
	checkLanes(t, ds, all...)
	r := newReader(t, ds[0], ds[1], 3<<20)
	r.run(ds)
	for i := range all {
		lib.BreakQP(ds[0].eps[1].lanes.Queues[i].QP.Num())
		r.run(ds)
		checkLanes(t, ds, all...) // the queue pair failed, but not its path
	}
	lib.SetPortState(second, false)
	r.run(ds)
	checkLanes(t, ds, left...)
	lib.SetPortState(second, true)
	checkLanes(t, ds, all...)
	r.run(ds)
	lib.SetLost(second, true)
	r.run(ds)
	checkLanes(t, ds, left...)
	newReader(t, ds[1], ds[0], 3<<20).run(ds)
}
