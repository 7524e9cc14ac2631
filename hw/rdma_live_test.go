//go:build linux

package hw_test

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/threadtest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// localDevice returns one of the RDMA devices of this machine.
func localDevice(t *testing.T, name string) hw.RDMADevice {
	t.Helper()
	devices, err := hw.LocalRDMA()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(devices, func(d hw.RDMADevice) bool { return d.Name == name })
	if at < 0 {
		t.Fatalf("%s is not among %+v", name, devices)
	}
	return devices[at]
}

func TestLiveRDMA(t *testing.T) {
	d := localDevice(t, live.Device(t))
	if d.Type != hw.NodeCA || d.NodeGUID == 0 || len(d.Ports) != 1 || d.OtherNetns || len(d.Problems) != 0 {
		t.Fatalf("the device is %+v", d)
	}
	if want := map[string]string{"rxe0": "rxe"}[d.Name]; want != "" && d.Provider != want {
		t.Errorf("provider of %s is %q, want %q", d.Name, d.Provider, want)
	}
	tree, err := hw.ReadRDMA(os.DirFS("/"))
	if err != nil || !slices.ContainsFunc(tree, func(o hw.RDMADevice) bool { return reflect.DeepEqual(o, d) }) {
		t.Errorf("ReadRDMA returned %+v, %v; want %+v", tree, err, d)
	}
	p := d.Ports[0]
	if p.State != hw.PortActive || p.PhysState != "LinkUp" || p.LinkLayer != hw.LinkEthernet || p.Rate == 0 {
		t.Errorf("the port is %+v", p)
	}
	if len(p.PKeys) == 0 || p.PKeys[0] != 0xffff {
		t.Errorf("P_Keys are %#x, want the default one first", p.PKeys)
	}
	nic, err := net.InterfaceByName(p.Netdev)
	if err != nil {
		t.Fatalf("netdev of the port: %v", err)
	}
	gid, err := p.ChooseGID(hw.GIDRequest{Family: hw.FamilyIPv4})
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := nic.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.ContainsFunc(addrs, func(a net.Addr) bool {
		return netip.MustParsePrefix(a.String()).Addr() == gid.Addr.Unmap()
	})
	if gid.Type != hw.GIDRoCEv2 || gid.Netdev != p.Netdev || !ours {
		t.Errorf("chose %v (%s), want a RoCE v2 GID of %s, which has %v", gid, gid.Reason, p.Netdev, addrs)
	}
	if first, err := p.ChooseGID(hw.GIDRequest{}); err != nil || first != gid {
		t.Errorf("the default choice is %v, %v; want %v", first, err, gid)
	}
	if name, err := hw.RDMAOf(p.Netdev); err != nil || name != d.Name {
		t.Errorf("the RDMA device of %s is %q, %v", p.Netdev, name, err)
	}
}

func TestLiveChars(t *testing.T) {
	d := localDevice(t, live.Device(t))
	var paths []string
	for _, c := range d.Chars {
		paths = append(paths, c.Path())
		var st unix.Stat_t
		if err := unix.Stat(c.Path(), &st); err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if uint64(st.Rdev) != unix.Mkdev(c.Major, c.Minor) {
			t.Errorf("%+v is %d:%d", c, unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
		}
	}
	others := rdmamap.GetRdmaCharDevices(d.Name)
	slices.Sort(others)
	if slices.Sort(paths); !slices.Equal(paths, others) {
		t.Errorf("character devices are %v, rdmamap finds %v", paths, others)
	}
	if c, found := d.Uverbs(); !found || c.ABI == 0 {
		t.Errorf("the verbs file is %+v", c)
	}
	if err := d.CanOpen(); err != nil {
		t.Error(err)
	}
}

func TestLiveCounters(t *testing.T) {
	d := localDevice(t, live.Device(t))
	c, err := hw.ReadCounters(os.DirFS("/"), d.Name, 1)
	if err != nil || len(c.Port)+len(c.HW) == 0 || len(c.Problems) != 0 {
		t.Errorf("counters are %+v, %v", c, err)
	}
}

// inNamespaces runs f on a separate thread in new namespaces, which end with the thread.
func inNamespaces(t *testing.T, namespaces int, f func()) {
	t.Helper()
	threadtest.Run(func() {
		if err := unix.Unshare(namespaces); err != nil {
			t.Error(err)
			return
		}
		f()
	})
}

func TestLiveAccessErrors(t *testing.T) {
	d := localDevice(t, live.Device(t))
	c, _ := d.Uverbs()
	right := int(unix.Mkdev(c.Major, c.Minor))
	inNamespaces(t, unix.CLONE_NEWNS, func() {
		err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", "/dev/infiniband", "tmpfs", 0, ""))
		if err != nil {
			t.Error(err)
			return
		}
		check := func(what string, want error) {
			var o *hw.AccessError
			if err := d.CanOpen(); !errors.Is(err, want) || want != nil && !errors.As(err, &o) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		check("no file", fs.ErrNotExist)
		for _, file := range []struct {
			what string
			mode uint32
			dev  int
			want error
		}{
			{"the file of another device", unix.S_IFCHR | 0o666, int(unix.Mkdev(1, 3)), syscall.ENODEV},
			{"a plain file", unix.S_IFREG | 0o666, 0, syscall.ENODEV},
			{"a file without a device", unix.S_IFCHR | 0o666, int(unix.Mkdev(c.Major, c.Minor+31)), syscall.ENXIO},
			{"the right file", unix.S_IFCHR | 0o600, right, nil},
		} {
			if err := unix.Mknod(c.Path(), file.mode, file.dev); err != nil {
				t.Error(err)
			}
			check(file.what, file.want)
			if file.want == nil {
				break
			}
			if err := os.Remove(c.Path()); err != nil {
				t.Error(err)
			}
		}
		if err := unix.Setfsuid(65534); err != nil { // of this thread
			t.Error(err)
		}
		check("the file of another user", fs.ErrPermission)
	})
}

// In shared mode another network namespace has the device, but not its interface. In exclusive mode it does not have the
// device either.
func TestLiveNamespaces(t *testing.T) {
	name := live.Device(t)
	live.Nodes(t, 1) // the mode applies to the whole machine, so not on the user's machine
	inNamespaces(t, unix.CLONE_NEWNET, func() {
		d := localDevice(t, name)
		if gid, err := d.Ports[0].ChooseGID(hw.GIDRequest{}); err == nil || d.OtherNetns {
			t.Errorf("shared with another namespace: chose %v, %v, in another namespace %t", gid, err, d.OtherNetns)
		}
		var o *hw.AccessError
		if err := d.CanOpen(); !errors.As(err, &o) || !errors.Is(err, errors.ErrUnsupported) { // rxe of Linux 6.1
			t.Errorf("shared with another namespace: %v", err)
		}
	})
	setNetnsMode(t, "exclusive")
	defer setNetnsMode(t, "shared")
	if d := localDevice(t, name); d.OtherNetns || d.CanOpen() != nil {
		t.Errorf("in its own namespace OtherNetns is %t, %v", d.OtherNetns, d.CanOpen())
	}
	inNamespaces(t, unix.CLONE_NEWNET, func() {
		d := localDevice(t, name)
		if err := d.CanOpen(); !d.OtherNetns || !errors.Is(err, syscall.EPERM) {
			t.Errorf("in another namespace OtherNetns is %t, %v", d.OtherNetns, err)
		}
		c, _ := d.Uverbs()
		if _, err := os.Open(c.Path()); !errors.Is(err, syscall.EPERM) {
			t.Errorf("the kernel opens a device of another namespace: %v", err)
		}
	})
}

// setNetnsMode sets the mode of RDMA namespaces. The kernel changes it only while no other namespace exists, and removes the
// namespaces of earlier tests asynchronously, so setNetnsMode retries.
func setNetnsMode(t *testing.T, mode string) {
	t.Helper()
	waittest.UntilNil(t, "set the mode of RDMA namespaces to "+mode, func() error {
		err := netlink.RdmaSystemSetNetnsMode(mode)
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatalf("set the mode of RDMA namespaces to %s: %v", mode, err)
		}
		return err
	})
}
