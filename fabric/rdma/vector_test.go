//go:build linux

package rdma

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedVectors: each process of a node uses another completion vector, as long as there are enough. A process whose place
// is not known uses the first.
func TestSimulatedVectors(t *testing.T) {
	for self, want := range map[int]int{3: 0, 5: 1, 6: 2, 8: 0, 7: 0} {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("a", func(d *verbstest.SimulatedDevice) { d.CompVectors = 3 })
		tr := &Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node(), Local: []int{3, 5, 6, 8}}
		d, err := tr.Open(t.Context(), &fabric.Config{Self: self, Size: 9})
		if err != nil {
			t.Fatal(err)
		}
		got := net.CompVectors()
		if len(got) == 0 || slices.ContainsFunc(got, func(v int) bool { return v != want }) {
			t.Errorf("process %d uses the completion vectors %v, want %d", self, got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
