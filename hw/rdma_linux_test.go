package hw

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAccessError(t *testing.T) {
	c := CharDevice{Kind: "uverbs", Name: "uverbs3", Major: 231, Minor: 195}
	same := unix.Mkdev(231, 195)
	for _, k := range []struct {
		name       string
		otherNetns bool
		file       CharDevice
		dev        uint64
		err        error
		is         error
		reason     string // a part of the reason
	}{
		{"none", false, c, same, nil, nil, ""},
		{"other namespace", true, c, 0, nil, fs.ErrPermission, "another network namespace"},
		{"no verbs", false, CharDevice{}, 0, nil, syscall.ENODEV, "modprobe ib_uverbs"},
		{"no file", false, c, 0, syscall.ENOENT, fs.ErrNotExist, "/dev/infiniband/uverbs3 is missing"},
		{"file mode", false, c, 0, syscall.EACCES, fs.ErrPermission, "mode and group"},
		{"cgroup", false, c, 0, syscall.EPERM, syscall.EPERM, "cgroup"},
		{"device gone", false, c, 0, syscall.ENXIO, syscall.ENXIO, "was it removed"},
		{"something else", false, c, 0, syscall.EMFILE, syscall.EMFILE, "open /dev/infiniband/uverbs3"},
		{"stale file", false, c, unix.Mkdev(10, 55), nil, syscall.ENODEV, "is not the device 231:195 but 10:55"},
		{"no device file", false, c, 0, nil, syscall.ENODEV, "but 0:0"},
	} {
		d := RDMADevice{Name: "mlx5_3", OtherNetns: k.otherNetns}
		err := d.accessError(k.file, k.dev, k.err)
		if k.reason == "" {
			if err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
			continue
		}
		var o *AccessError
		if !errors.As(err, &o) || !errors.Is(err, k.is) || !strings.Contains(o.Reason, k.reason) || o.Device != "mlx5_3" {
			t.Errorf("%s: %v, want one that wraps %v and says %q", k.name, err, k.is, k.reason)
		}
	}
}

func TestCanOpenWithoutFile(t *testing.T) {
	d := RDMADevice{Name: "x0", Chars: []CharDevice{{Kind: "uverbs", Name: "uverbs-that-no-machine-has"}}}
	if err := d.CanOpen(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device without its file: %v", err)
	}
	d.Chars = nil
	if err := d.CanOpen(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a device without verbs: %v", err)
	}
}

func TestInterfaceHoldsGID(t *testing.T) {
	n := netInterface{
		mac:   net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x56},
		addrs: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::42")},
	}
	for _, c := range []struct {
		n    netInterface
		gid  string
		want bool
	}{
		{n, "::ffff:10.0.0.1", true},
		{n, "::ffff:10.0.0.2", false}, // address of an interface with the same name in the host's namespace
		{n, "fe80::42", true},
		{n, "fe80::5054:ff:fe12:3456", true}, // derived from the MAC address
		{n, "fe80::5054:ff:fe12:3457", false},
		{n, "2001:db8::5054:ff:fe12:3456", false},
		{netInterface{}, "fe80::5054:ff:fe12:3456", false}, // not in this namespace
	} {
		if got := c.n.hasGID(netip.MustParseAddr(c.gid)); got != c.want {
			t.Errorf("holds %s is %t, want %t", c.gid, got, c.want)
		}
	}
}

func TestInterfacesOfThisMachine(t *testing.T) {
	here, err := listInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	list, err := net.Interfaces()
	if err != nil || len(here) != len(list) {
		t.Errorf("found %d interfaces of %d, %v", len(here), len(list), err)
	}
}

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

// rootTree returns the same texts and errors as os.DirFS.
func TestRootTree(t *testing.T) {
	tree, err := openRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	same := 0
	for _, name := range []string{
		"sys/devices/system/cpu/online", "sys/devices/system/cpu/possible", "sys/kernel/mm/transparent_hugepage/enabled",
		"sys/devices/system/cpu/none", "none/online", "sys/devices/system/cpu",
	} {
		got, err := tree.readFile(name)
		want, wantErr := fs.ReadFile(os.DirFS("/"), name)
		if got != string(want) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%s: read %q, %v; want %q, %v", name, got, err, want, wantErr)
		}
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: error is %v, want %v", name, err, wantErr)
		}
		if err == nil {
			same++
		}
	}
	if same == 0 {
		t.Error("no file could be read")
	}
}
