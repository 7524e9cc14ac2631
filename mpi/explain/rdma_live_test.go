//go:build linux

package explain

import (
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveRDMA: the device's limits are used, and messages are sent as explained.
func TestLiveRDMA(t *testing.T) {
	device := live.Device(t)
	ways, err := Paths("rdma", os.Getenv, []int{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := ways[0]
	if m := w.Messages[0]; w.Unusable != "" || m.Protocol != "rdma read" || m.Pieces < 2 {
		t.Errorf("%+v", w)
	}
	for _, l := range w.Limits {
		if l.Name == "piece" && (l.Bytes == 0 || !strings.HasSuffix(l.Source, "device "+device)) {
			t.Errorf("%+v", l)
		}
		t.Logf("%+v", l)
	}
	agree(t, "rdma")
}
