package hw_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// large returns a machine with two sockets of 128 cores, two threads per core, eight NUMA nodes, and 16 NICs below switches.
func large(t testing.TB) fs.FS {
	t.Helper()
	var b strings.Builder
	file := func(text, name string, args ...any) {
		fmt.Fprintf(&b, "-- %s --\n%s\n", fmt.Sprintf(name, args...), text)
	}
	file("0-511", "sys/devices/system/cpu/online")
	file("0-7", "sys/devices/system/node/online")
	set := func(first, n int) string {
		return fmt.Sprintf("%d-%d,%d-%d", first, first+n-1, first+256, first+256+n-1)
	}
	for core := range 256 {
		pus := fmt.Sprintf("%d,%d", core, core+256)
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu{%s}/", pus)
		file(pus, "%stopology/core_cpus_list", dir)
		file(fmt.Sprint(core%128), "%stopology/core_id", dir)
		file(fmt.Sprint(core/128), "%stopology/physical_package_id", dir)
		file(set(core/128*128, 128), "%stopology/package_cpus_list", dir)
		file("0", "%stopology/die_id", dir)
		file(set(core/128*128, 128), "%stopology/die_cpus_list", dir)
		for index, c := range []struct{ level, kind, size, sharing string }{
			{"1", "Data", "32K", pus}, {"1", "Instruction", "32K", pus}, {"2", "Unified", "1024K", pus},
			{"3", "Unified", "32768K", set(core/8*8, 8)},
		} {
			at := fmt.Sprintf("%scache/index%d/", dir, index)
			file(c.level, "%slevel", at)
			file(c.kind, "%stype", at)
			file(c.size, "%ssize", at)
			file(c.sharing, "%sshared_cpu_list", at)
			file("64", "%scoherency_line_size", at)
			file("16", "%sways_of_associativity", at)
		}
	}
	for node := range 8 {
		file(set(node*32, 32), "sys/devices/system/node/node%d/cpulist", node)
		file("10 12 12 12 32 32 32 32", "sys/devices/system/node/node%d/distance", node)
		file(fmt.Sprintf("Node %d MemTotal: 100000000 kB", node), "sys/devices/system/node/node%d/meminfo", node)
	}
	for nic := range 16 {
		largeNIC(nic, set(nic/2*32, 32), file)
	}
	tree, err := hwtest.FromText([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func largeNIC(nic int, near string, file func(text, name string, args ...any)) {
	root := fmt.Sprintf("sys/devices/pci0000:%02x/0000:%02x:01.0", nic*16, nic*16)
	dir := fmt.Sprintf("%s/0000:%02x:00.0", root, nic*16+1)
	for _, at := range []string{root, dir} {
		file("", "sys/bus/pci/devices/%s -> ../../../%s", at[strings.LastIndex(at, "/")+1:], at[len("sys/"):])
		file(fmt.Sprint(nic/2), "%s/numa_node", at)
		file(near, "%s/local_cpulist", at)
		for _, f := range []string{"vendor 0x15b3", "device 0x1021", "current_link_width 16", "max_link_width 16",
			"current_link_speed 32.0 GT/s PCIe", "max_link_speed 32.0 GT/s PCIe"} {
			name, text, _ := strings.Cut(f, " ")
			file(text, "%s/%s", at, name)
		}
	}
	file("0x060400", "%s/class", root)
	file("0x020000", "%s/class", dir)
	ib, net := fmt.Sprintf("infiniband/mlx5_%d", nic), fmt.Sprintf("net/eth%d", nic)
	file("", "sys/class/%s -> ../../%s/%s", ib, dir[len("sys/"):], ib)
	file("", "sys/class/%s -> ../../%s/%s", net, dir[len("sys/"):], net)
	file("1: CA", "%s/%s/node_type", dir, ib)
	file("Ethernet", "%s/%s/ports/1/link_layer", dir, ib)
	file("4: ACTIVE", "%s/%s/ports/1/state", dir, ib)
	for gid := range 256 {
		file("0000:0000:0000:0000:0000:0000:0000:0000", "%s/%s/ports/1/gids/%d", dir, ib, gid)
	}
	file("RoCE v2", "%s/%s/ports/1/gid_attrs/types/0", dir, ib)
	file("9000", "%s/%s/mtu", dir, net)
}

func TestLargeMachine(t *testing.T) {
	top, err := hw.Read(large(t))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(len(top.Packages), len(top.Dies), len(top.Nodes), len(top.Caches), len(top.Cores), len(top.PUs),
		len(top.PCI), len(top.RDMA), len(top.RDMACandidates()), len(top.Netdevs), top.Problems)
	if want := fmt.Sprint(2, 0, 8, 3*256+32, 256, 512, 32, 16, 16, 16, []string(nil)); got != want {
		t.Errorf("the large machine has %s, want %s", got, want)
	}
	choices := top.AssignDevices(perCore(top), top.RDMACandidates())
	load := map[string]int{}
	for _, c := range choices {
		load[c.String()]++
		if c.Path != hw.PathPHB {
			t.Errorf("the path from a core to its device is %s", c.Path)
		}
	}
	for name, n := range load {
		if n != 16 || len(load) != 16 {
			t.Errorf("%s has %d of 256 ranks, want 16", name, n)
		}
	}
}

func perCore(top *hw.Topology) (ranks [][]int) {
	for _, c := range top.Cores {
		ranks = append(ranks, c.PUs)
	}
	return ranks
}

func BenchmarkRead(b *testing.B) {
	tree := large(b)
	for name, options := range map[string][]hw.Option{"all": nil, "OnlyPUs": {hw.OnlyPUs}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := hw.Read(tree, options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAssignDevices(b *testing.B) {
	top, err := hw.Read(large(b))
	if err != nil {
		b.Fatal(err)
	}
	ranks, candidates := perCore(top), top.RDMACandidates()
	for b.Loop() {
		top.AssignDevices(ranks, candidates)
	}
}
