package hw_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing/fstest"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// A machine with four PUs on two cores, as a tree of files. The tree of this machine is os.DirFS("/").
func ExampleRead() {
	const cpu = "sys/devices/system/cpu/"
	top, err := hw.Read(fstest.MapFS{
		cpu + "online":                       {Data: []byte("0-3\n")},
		cpu + "cpu0/topology/core_cpus_list": {Data: []byte("0-1\n")},
		cpu + "cpu1/topology/core_cpus_list": {Data: []byte("0-1\n")},
		cpu + "cpu2/topology/core_cpus_list": {Data: []byte("2-3\n")},
		cpu + "cpu3/topology/core_cpus_list": {Data: []byte("2-3\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(top.PUs), "PUs on", len(top.Cores), "cores")
	for _, core := range top.CoresOf([]int{0, 1, 2}) { // this process may not use PU 3
		fmt.Println("ours of a core:", hw.FormatList(core))
	}
	// Output:
	// 4 PUs on 2 cores
	// ours of a core: 0-1
	// ours of a core: 2
}

func ExampleFormatList() {
	fmt.Println(hw.FormatList([]int{8, 0, 1, 2, 3}))
	// Output: 0-3,8
}

// Each rank gets a device near the PUs that it is bound to.
func ExampleTopology_AssignDevices() {
	top := &hw.Topology{
		PUs: []hw.PU{{ID: 0, Node: 0, Package: 0}, {ID: 1, Core: 1, Node: 1, Package: 1}},
		Nodes: []hw.Node{
			{ID: 0, PUs: []int{0}, Near: []int{0}},
			{ID: 1, PUs: []int{1}, Near: []int{1}},
		},
	}
	devices := []hw.Candidate{
		{Name: "mlx5_0", Port: 1, Location: hw.Location{PCI: "0000:10:00.0", NUMA: 0}},
		{Name: "mlx5_1", Port: 1, Location: hw.Location{PCI: "0000:80:00.0", NUMA: 1}},
	}
	for rank, choice := range top.AssignDevices([][]int{{1}, {0}}, devices) {
		fmt.Println("rank", rank, "uses", choice)
	}
	// Output:
	// rank 0 uses mlx5_1:1
	// rank 1 uses mlx5_0:1
}

// A fixed rule decides which entry of the GID table to use. The result contains the reason.
func ExampleRDMAPort_ChooseGID() {
	v4, v6 := netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::1")
	port := hw.RDMAPort{LinkLayer: hw.LinkEthernet, Netdev: "eth0", GIDs: []hw.GID{
		{Index: 0, Addr: v6, Type: hw.GIDRoCEv1, Netdev: "eth0"},
		{Index: 1, Addr: v6, Type: hw.GIDRoCEv2, Netdev: "eth0"},
		{Index: 2, Addr: v4, Type: hw.GIDRoCEv1, Netdev: "eth0"},
		{Index: 3, Addr: v4, Type: hw.GIDRoCEv2, Netdev: "eth0"},
	}}
	gid, err := port.ChooseGID(hw.GIDRequest{})
	fmt.Println(gid.Index, gid.Addr, gid.Reason, err)
	// Output: 3 ::ffff:10.0.0.1 the IPv4 address of eth0 <nil>
}

// A machine is captured as an archive, which any other machine can read.
func ExampleCapture() {
	machine, err := hwtest.FromText([]byte("-- sys/devices/system/cpu/online --\n0-2\n")) // os.DirFS("/") is this machine
	if err != nil {
		fmt.Println(err)
		return
	}
	var archive bytes.Buffer
	if err := hw.Capture(&archive, machine); err != nil {
		fmt.Println(err)
	}
	tree, err := hw.Unpack(&archive) // hw.OpenTree opens a file by name
	if err != nil {
		fmt.Println(err)
		return
	}
	top, err := hw.Read(tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("PUs", hw.FormatList(top.Allowed))
	// Output: PUs 0-2
}
