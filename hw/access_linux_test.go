package hw

import (
	"errors"
	"io/fs"
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

func TestSoftRoCEInOtherNamespaces(t *testing.T) {
	const (
		head = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
		own  = "  303: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 11106 2 0 0\n"
		dns  = "  303: 00000000:0035 0100007F:12B8 07 00000000:00000000 00:00000000 00000000     0        0 11106 2 0 0\n"
	)
	for _, c := range []struct {
		provider, sockets string
		err               error
		refused           bool
	}{
		{"rxe", head + dns + own, nil, false},
		{"rxe", head + dns, nil, true},
		{"rxe", head, nil, true},
		{"rxe", "", fs.ErrNotExist, false},
		{"mlx5", head, nil, false},
	} {
		d := RDMADevice{Name: "x0", Provider: c.provider}
		err := d.softRoCEError([]byte(c.sockets), c.err)
		var o *AccessError
		if c.refused != (err != nil) || err != nil && (!errors.As(err, &o) || !errors.Is(err, errors.ErrUnsupported)) {
			t.Errorf("%s with %q, %v: %v", c.provider, c.sockets, c.err, err)
		}
	}
}
