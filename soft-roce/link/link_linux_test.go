package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err    error
		loaded bool
		want   error
		remedy string
	}{
		{syscall.EPROTONOSUPPORT, false, ErrNotSupported, "linux-modules-extra"},
		{syscall.EINVAL, false, ErrNotSupported, "modprobe rdma_rxe"},
		{syscall.EINVAL, true, syscall.EINVAL, ""},
		{fmt.Errorf("%w: modprobe rdma_rxe: exit status 1", errDriver), false, ErrNotSupported, "soft-roce/vm"},
		{syscall.EPERM, true, ErrPermission, "root"},
		{syscall.ENODEV, true, ErrNoNetdev, ""},
		{syscall.ENFILE, true, ErrNameInUse, "another name"},
		{syscall.EEXIST, true, ErrNetdevInUse, "show"},
		{syscall.ENOENT, true, syscall.ENOENT, "crc32"},
		{syscall.ENOMEM, true, syscall.ENOMEM, ""},
	} {
		remedy, err := explainError(fmt.Errorf("receive: %w", c.err), c.loaded)
		if !errors.Is(err, c.want) || !errors.Is(err, c.err) || !strings.Contains(remedy, c.remedy) {
			t.Errorf("%v: %v, %q; want %v and a remedy with %q", c.err, err, remedy, c.want, c.remedy)
		}
	}
}

func TestNamesThatTheKernelWouldMangle(t *testing.T) {
	for _, c := range [][2]string{{"", "eth0"}, {"rxe0", ""}, {"..", "eth0"}, {"a/b", "eth0"}, {"rxe%d", "eth0"}, {"rxe0", "a b"},
		{"rxe0", "sixteen-letters-"}, {strings.Repeat("x", 64), "eth0"}, {"rxe0", "a\x00b"}} {
		if err := Add(c[0], c[1]); !errors.Is(err, ErrBadName) {
			t.Errorf("Add(%q, %q): %v", c[0], c[1], err)
		}
		if c[1] == "eth0" {
			if err := Delete(c[0]); !errors.Is(err, ErrBadName) {
				t.Errorf("Delete(%q): %v", c[0], err)
			}
		}
	}
	for name, longest := range map[string]int{"rxe0": maxName, strings.Repeat("x", 63): maxName, "eth0.100": maxNetdev} {
		if err := checkName(name, longest); err != nil {
			t.Error(err)
		}
	}
}

func TestAddSaysWhatIsMissing(t *testing.T) {
	err := Add("rxe0", "surely-not-here")
	var e *Error
	if !errors.Is(err, ErrNoNetdev) || !errors.As(err, &e) || e.Op != "add" || e.Name != "rxe0" || e.Netdev != "surely-not-here" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat("/sys/class/infiniband"); err == nil {
		t.Logf("this machine has RDMA devices, and more is tested live")
		return
	}
	if err := Add("rxe0", "lo"); !errors.Is(err, ErrNotSupported) && !errors.Is(err, ErrPermission) {
		t.Errorf("on a machine without RDMA: %v", err)
	}
	if err := Delete("rxe0"); !errors.Is(err, ErrNoLink) {
		t.Errorf("on a machine without RDMA: %v", err)
	}
	if links, err := List(); len(links) > 0 || err != nil {
		t.Errorf("on a machine without RDMA: %v, %v", links, err)
	}
}

func TestList(t *testing.T) {
	sys := fstest.MapFS{
		"rxe1/parent":             {Data: []byte("eth1\n")},
		"rxe1/ports/1/state":      {Data: []byte("1: DOWN\n")},
		"rxe0/parent":             {Data: []byte("eth0\n")},
		"rxe0/ports/1/state":      {Data: []byte("4: ACTIVE\n")},
		"rxe2/parent":             {Data: []byte("eth2\n")},
		"mlx5_0/ports/1/state":    {Data: []byte("4: ACTIVE\n")},
		"mlx5_0/device/somewhere": {Data: []byte("x")},
	}
	got, err := readLinks(sys)
	want := []Link{{"rxe0", "eth0", "ACTIVE"}, {"rxe1", "eth1", "DOWN"}, {"rxe2", "eth2", "UNKNOWN"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := readLinks(unreadable{sys}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// unreadable has files that only others may read.
type unreadable struct{ fstest.MapFS }

func (u unreadable) ReadFile(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrPermission}
}
