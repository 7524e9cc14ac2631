//go:build linux

package rdma

import (
	"maps"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// TestSimulatedRelaxedOrdering checks that the bus may reorder writes to memory that the caller has registered, and to no other.
func TestSimulatedRelaxedOrdering(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a", "b"}}, 2)
	connectPeers(t, ds[0], ds[1])
	before := net.RegisteredAccess()
	for a := range before {
		if a&verbs.RelaxedOrdering != 0 {
			t.Errorf("memory of the library is registered with %v", a)
		}
	}
	region, err := ds[0].Register(make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(before)
	want[verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.RelaxedOrdering] = 2 // one for each device
	if got := net.RegisteredAccess(); !maps.Equal(got, want) {
		t.Errorf("registered %v, want %v", got, want)
	}
	if err := ds[0].Deregister(region); err != nil {
		t.Error(err)
	}
}
