package hw_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// machines returns the machines of testdata by name.
func machines(t testing.TB) map[string]fs.FS {
	t.Helper()
	names, err := filepath.Glob("testdata/machines/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	all := map[string]fs.FS{}
	for _, name := range names {
		all[strings.TrimSuffix(filepath.Base(name), ".txtar")] = hwtest.Tree(t, name)
	}
	return all
}

func read(t testing.TB, machine string, options ...hw.Option) *hw.Topology {
	t.Helper()
	top, err := hw.Read(hwtest.Tree(t, "testdata/machines/"+machine+".txtar"), options...)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// With OnlyPUs, Read returns the same PUs as without, sorted by number.
func TestOnlyPUs(t *testing.T) {
	for name, tree := range machines(t) {
		lean, err := hw.Read(tree, hw.OnlyPUs)
		if err != nil {
			t.Fatal(err)
		}
		full, err := hw.Read(tree)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(full.PUs, func(a, b hw.PU) int { return a.ID - b.ID })
		if !reflect.DeepEqual(lean, &hw.Topology{PUs: full.PUs}) {
			t.Errorf("%s: with OnlyPUs %+v, without %+v", name, lean, full.PUs)
		}
	}
}

// Properties that are not compared with hwloc.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		machine, what, want string
		get                 func(*hw.Topology) any
	}{
		{"hybrid", "kinds", "[{cpu_core 0 [0 1 2 3]} {cpu_atom 0 [4 5 6 7 8 9]}]", func(t *hw.Topology) any { return t.Kinds }},
		{"hybrid", "kinds of cores", "[0 0 1 1 1 1 1 1]", kindsOfCores},
		{"hybrid", "model", "Example Hybrid CPU", func(t *hw.Topology) any { return t.Packages[0].Model }},
		{"hybrid", "L3 of PUs", "[0 0 0 0 0 0 0 0 8 9]", func(t *hw.Topology) any { return l3(t) }},
		{"capacity", "kinds", "[{capacity 1024 [2 3]} {capacity 446 [0 1]}]", func(t *hw.Topology) any { return t.Kinds }},
		{"capacity", "kinds of cores", "[1 1 0 0]", kindsOfCores},
		{"capacity", "package", "-1", func(t *hw.Topology) any { return t.Packages[0].ID }},
		{"offline", "nodes", "[2:10 20 40 30 80 0:20 10 17 30 80 1:40 17 10 30 80 6:30 30 30 10 30 255:80 80 80 30 10]", nodes},
		{"offline", "GPU memory", "0004:04:00.0", func(t *hw.Topology) any { return t.Nodes[4].GPU }},
		{"offline", "near node 1", "[5 6 7]", func(t *hw.Topology) any { return t.Nodes[2].Near }},
		{"container", "cgroup", "&{/job [2 3] [1]}", func(t *hw.Topology) any { return t.Cgroup }},
		{"container", "allowed", "[2 3]", func(t *hw.Topology) any { return t.Allowed }},
		{"container", "NUMA nodes of devices", "[0000:40:01.0:1 0000:41:00.0:1 0000:50:01.0:-1 0000:51:00.0:-1 0000:60:01.0:-1]", numa},
		{"container", "NUMA node of the RDMA device", "1", func(t *hw.Topology) any { return t.RDMA[0].NUMA }},
		{"two-sockets", "GPUs", "[card0 card1 card2 card3]", func(t *hw.Topology) any { return namesOf(t.GPUs) }},
		{"two-sockets", "NVMe", "[nvme0]", func(t *hw.Topology) any { return namesOf(t.NVMe) }},
		{"two-sockets", "netdev", "{eth2 0c:42:a1:11:22:02 4200 up 400000000000 0  0000:83:00.0 1 [1 3 5 7 9 11 13 15] []}",
			func(t *hw.Topology) any { return t.Netdevs[2] }},
		{"two-sockets", "link", "{32 8 32 16}", func(t *hw.Topology) any { return t.PCI[len(t.PCI)-1].Link }},
		{"two-sockets", "bridge", "0000:88:01.0 pci0000:88",
			func(t *hw.Topology) any { return t.PCI[len(t.PCI)-1].Parent + " " + t.PCI[len(t.PCI)-1].Root }},
		{"two-sockets", "problems", "[]", func(t *hw.Topology) any { return t.Problems }},
	} {
		if got := fmt.Sprint(c.get(read(t, c.machine))); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.machine, c.what, got, c.want)
		}
	}
}

func kindsOfCores(t *hw.Topology) any {
	var kinds []int
	for _, c := range t.Cores {
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

func l3(t *hw.Topology) (l3 []int) {
	for _, pu := range t.PUs {
		l3 = append(l3, pu.L3)
	}
	return l3
}

func nodes(t *hw.Topology) any {
	var words []string
	for _, n := range t.Nodes {
		words = append(words, fmt.Sprintf("%d:%s", n.ID, strings.Trim(fmt.Sprint(n.Distances), "[]")))
	}
	return words
}

func numa(t *hw.Topology) any {
	var words []string
	for _, d := range t.PCI {
		words = append(words, fmt.Sprintf("%s:%d", d.Address, d.NUMA))
	}
	slices.Sort(words)
	return words
}

func namesOf(devices []hw.Device) (names []string) {
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// A device with an unreadable file is listed with the reason.
func TestDeviceWithProblems(t *testing.T) {
	top := read(t, "container")
	at := slices.IndexFunc(top.PCI, func(d hw.PCIDevice) bool { return d.Address == "0000:51:00.0" })
	got := strings.Join(top.PCI[at].Problems, "; ")
	const dir = "sys/bus/pci/devices/0000:51:00.0/"
	for _, want := range []string{
		dir + "class: input/output error", dir + "device: permission denied", "NUMA node that does not exist",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("problems are %q, want %q among them", got, want)
		}
	}
	if len(top.Problems) != 0 || top.RDMA[0].Problems != nil {
		t.Errorf("other parts have problems too: %q, %q", top.Problems, top.RDMA[0].Problems)
	}
}

func TestAffinityAndOpen(t *testing.T) {
	top := read(t, "container", hw.WithAffinity([]int{3, 1}), hw.WithOpen(func(d *hw.RDMADevice) error {
		return &hw.AccessError{Device: d.Name, Reason: "no such file", Err: syscall.ENOENT}
	}))
	if got := fmt.Sprint(top.Allowed, top.Affinity); got != "[3] [1 3]" {
		t.Errorf("allowed and affinity are %s, want the intersection of cgroup and mask, and the mask", got)
	}
	if o := top.RDMA[0].AccessError; o == nil || !errors.Is(o, syscall.ENOENT) || len(top.RDMACandidates()) != 0 {
		t.Errorf("a device that cannot be opened has the access error %v and is a candidate: %v", o, top.RDMACandidates())
	}
	if got := read(t, "container").RDMACandidates(); len(got) != 1 {
		t.Errorf("candidates without WithOpen are %v, want one", got)
	}
	if top := read(t, "container", hw.WithAffinity([]int{0, 1})); len(top.Allowed) != 0 {
		t.Errorf("cgroup and mask exclude everything, but allowed is %v", top.Allowed)
	}
}
