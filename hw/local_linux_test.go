package hw

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestRDMAOfNothing(t *testing.T) {
	if dev, err := RDMAOf("ibrun-none"); err == nil {
		t.Errorf("a nonexistent interface belongs to %s", dev)
	}
	if dev, err := RDMAOf("lo"); err == nil && dev == "" {
		t.Error("an interface without an RDMA device belongs to one without a name")
	}
}

// TestDeviceOf: the interface of each port finds its device, also if its address is not made of the GUID of the node. Interfaces
// of other namespaces, which may have the same names, find none.
func TestDeviceOf(t *testing.T) {
	devices := []RDMADevice{
		{Name: "mlx4_0", Ports: []RDMAPort{{Number: 1, Netdev: "ib1"}, {Number: 2, Netdev: "ib2"}}},
		{Name: "mlx5_0", Ports: []RDMAPort{{Number: 1, Netdev: "eth0", GIDs: []GID{
			{Netdev: "eth0", OtherNetns: true}, {Index: 1, Netdev: "eth0.100"},
		}}}},
		{Name: "mlx5_1", OtherNetns: true, Ports: []RDMAPort{{Number: 1, Netdev: "ib3"}}},
	}
	for netdev, want := range map[string]string{
		"ib1": "mlx4_0", "ib2": "mlx4_0", "eth0": "", "eth0.100": "mlx5_0", "ib3": "", "ib4": "",
	} {
		if got := deviceOf(devices, netdev); got != want {
			t.Errorf("%s belongs to %q, want %q", netdev, got, want)
		}
	}
}

// LocalRDMA returns all RDMA devices, and an empty list on a machine without any.
func TestRDMAOfThisMachine(t *testing.T) {
	devices, err := LocalRDMA()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/sys/class/infiniband")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(devices) != len(entries) {
		t.Errorf("read %d of %d RDMA devices", len(devices), len(entries))
	}
}
