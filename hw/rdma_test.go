package hw_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ibrun/ibrun/hw"
)

// sysfs is a tree from an archive. "a -> b" is a link, and a file with the text !EIO cannot be read.
type sysfs struct{ fstest.MapFS }

func (s sysfs) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return f, err
	}
	data, err := s.MapFS.ReadFile(name)
	errnos := map[string]error{
		"!EIO\n": syscall.EIO, "!EINVAL\n": syscall.EINVAL, "!EACCES\n": syscall.EACCES, "!ENODEV\n": syscall.ENODEV,
	}
	if errno := errnos[string(data)]; errno != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errno}
	}
	return f, err
}

func rdmaTree(t *testing.T, name string) (sysfs, string) {
	t.Helper()
	files, want := tree(t, "testdata/rdma/"+name)
	for name := range files {
		if from, to, isLink := strings.Cut(name, " -> "); isLink {
			delete(files, name)
			files[from] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(to)}
		}
	}
	return sysfs{files}, want
}

func readRDMA(t *testing.T, name string) []hw.RDMADevice {
	t.Helper()
	fsys, _ := rdmaTree(t, name)
	devices, err := hw.ReadRDMA(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// describe formats every field of a device.
func describe(d hw.RDMADevice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, driver %q, provider %q, away %t\n", d.Name, d.Type, d.Driver, d.Provider, d.OtherNetns)
	fmt.Fprintf(&b, "  GUID %v, image %v, firmware %q, board %q, HCA %q\n",
		d.NodeGUID, d.SysImageGUID, d.Firmware, d.BoardID, d.HCAType)
	fmt.Fprintf(&b, "  PCI %q, NUMA %d, PUs %q\n", d.PCI, d.NUMA, hw.FormatList(d.LocalPUs))
	for _, c := range d.Chars {
		fmt.Fprintf(&b, "  %s %s port %d, %d:%d, ABI %d\n", c.Kind, c.Path(), c.Port, c.Major, c.Minor, c.ABI)
	}
	for _, p := range d.Ports {
		fmt.Fprintf(&b, "  port %d: %s, %s, %d bit/s, %s, netdev %q\n",
			p.Number, p.State, p.PhysState, p.Rate, p.LinkLayer, p.Netdev)
		fmt.Fprintf(&b, "    LID %d, SM %d, capabilities %#x, P_Keys %#x\n", p.LID, p.SMLID, p.CapMask, p.PKeys)
		for _, g := range p.GIDs {
			fmt.Fprintf(&b, "    %v%s\n", g, map[bool]string{true: ", away"}[g.OtherNetns])
		}
	}
	for _, p := range d.Problems {
		fmt.Fprintf(&b, "  problem: %s\n", p)
	}
	return b.String()
}

var update = flag.Bool("update", false, "write the wanted results of trees of RDMA devices anew")

func TestRDMATrees(t *testing.T) {
	names, err := filepath.Glob("testdata/rdma/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no trees: %v", err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		var all []string
		for _, d := range readRDMA(t, base) {
			all = append(all, strings.TrimSpace(describe(d)))
		}
		got := strings.Join(all, "\n")
		if *update {
			rewrite(t, name, got)
		}
		if _, want := rdmaTree(t, base); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

func rewrite(t *testing.T, name, want string) {
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
	ar.Files = slices.Insert(ar.Files, 0, txtar.File{Name: "want", Data: []byte(want + "\n")})
	if err := os.WriteFile(name, txtar.Format(ar), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestCounters(t *testing.T) {
	fsys, _ := rdmaTree(t, "mlx5-roce.txtar")
	for _, c := range []struct {
		port int
		want string
	}{
		{0, "map[] map[device_wide:18446744073709551615] []"},
		{1, "map[VL15_dropped:0 port_xmit_data:123456] map[out_of_sequence:17] []"},
	} {
		n, err := hw.ReadCounters(fsys, "mlx5_0", c.port)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(n.Port, n.HW, n.Problems); got != c.want {
			t.Errorf("counters of port %d are %s, want %s", c.port, got, c.want)
		}
	}
	if _, err := hw.ReadCounters(fsys, "mlx5_0", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("counters of a nonexistent port: %v", err)
	}
	if _, err := hw.ReadCounters(fsys, "../net", 0); err == nil {
		t.Error("counters of a device that is elsewhere in the tree")
	}
	broken, _ := rdmaTree(t, "unreadable.txtar")
	n, err := hw.ReadCounters(broken, "irdma0", 1)
	if err != nil || n.HW["cnpIgnored"] != 3 || len(n.HW) != 1 || len(n.Problems) != 1 {
		t.Errorf("counters with one damaged file are %+v, %v", n, err)
	}
}

func TestNoRDMA(t *testing.T) {
	if devices, err := hw.ReadRDMA(fstest.MapFS{}); err != nil || devices != nil {
		t.Errorf("a tree without RDMA devices returns %v, %v", devices, err)
	}
	fsys := fstest.MapFS{"sys/class/infiniband": &fstest.MapFile{}}
	if _, err := hw.ReadRDMA(fsys); err == nil {
		t.Error("ReadRDMA accepts a class that is not a directory")
	}
}
