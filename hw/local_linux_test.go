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
