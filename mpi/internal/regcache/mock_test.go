//go:build linux && !static && (amd64 || arm64)

package regcache

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// machine is a machine with one device of the mock of libibverbs.
type machine struct{ device hw.RDMADevice }

func (m machine) Devices() ([]verbs.Device, error) {
	return []verbs.Device{{RDMADevice: m.device}}, nil
}
func (m machine) Open(string) (*verbs.Context, error) { return verbstest.OpenLibrary(m.device) }
func (m machine) Prefix(string, netip.Addr) netip.Prefix {
	return netip.MustParsePrefix("10.0.0.0/8")
}

// TestPinnedByDevice: by the record of the library, a message pins at most its own bytes and 2 MiB, also if it is a part of much
// larger memory. Nothing stays pinned.
func TestPinnedByDevice(t *testing.T) {
	lib := ibvmock.Load(t)
	tr := &rdma.Transport{Network: machine{lib.NewDevice("mlx5_roce")}}
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	before := lib.Get("pinned")
	for _, message := range []int{64 << 10, 1 << 20, 5<<20 + 123} {
		c, memory := New(d, 1<<30), make([]byte, message+8<<20)
		release(t, c, acquire(t, c, memory[3<<20+17:][:message]))
		if pinned := int(lib.Get("pinned") - before); pinned < message || pinned > message+maxSpare+pageBytes {
			t.Errorf("a message of %d bytes pins %d, want at most %d more", message, pinned, maxSpare+pageBytes)
		}
		runtime.KeepAlive(memory)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := lib.Get("pinned") - before; left != 0 {
		t.Errorf("%d bytes stay pinned", left)
	}
}
