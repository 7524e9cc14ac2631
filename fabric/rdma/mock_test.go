//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// mockNetwork is a machine whose devices are those of the mock of libibverbs.
type mockNetwork []hw.RDMADevice

func (n mockNetwork) Devices() ([]verbs.Device, error) {
	var all []verbs.Device
	for _, d := range n {
		all = append(all, verbs.Device{RDMADevice: d})
	}
	return all, nil
}

func (n mockNetwork) Open(name string) (*verbs.Context, error) {
	i := slices.IndexFunc(n, func(d hw.RDMADevice) bool { return d.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no device %s", name)
	}
	return verbstest.OpenLibrary(n[i])
}

func (n mockNetwork) Prefix(string, netip.Addr) netip.Prefix {
	return netip.MustParsePrefix("10.0.0.0/8")
}

// TestMockConformance runs the suite on a kind of device that the mock has, one without an SRQ, and with IBRUN_SOAK=1 on all.
func TestMockConformance(t *testing.T) {
	lib := ibvmock.Load(t)
	lib.Set("speed", 16)
	for _, p := range ibvmock.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			if !soaktest.On() && p.Name != "irdma" {
				t.Skip("runs with IBRUN_SOAK=1")
			}
			before := lib.Calls("ibv_post_send")
			network := mockNetwork{lib.NewDevice(p.Name)}
			fabrictest.Run(t, func(tb testing.TB, n int) []fabric.Transport {
				tr := &Transport{Network: network}
				rand.Read(tr.Key[:])
				return suitePeers(tb, slices.Repeat([]*Transport{tr}, n))
			})
			if lib.Calls("ibv_post_send") == before {
				t.Error("the suite did not use the device")
			}
		})
	}
}

// BenchmarkMock measures the suite's messages over the mock: the time of the software of both peers.
func BenchmarkMock(b *testing.B) {
	network := mockNetwork{ibvmock.Load(b).NewDevice("mlx5_roce")}
	fabrictest.Bench(b, func(_ testing.TB, n int) []fabric.Transport {
		tr := &Transport{Network: network}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{tr}, n)
	})
}
