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
