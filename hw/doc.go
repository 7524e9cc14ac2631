// Package hw describes the hardware of a node: packages, dies, NUMA nodes, caches, cores and PUs, the PCI devices, RDMA
// devices, network interfaces, GPUs and NVMe disks, and which of these are close to each other.
//
// A PU (processing unit) is what the kernel calls a CPU: one core, or one hardware thread of a core that has several.
// [Local] reads this machine. [Read] reads any machine from its root directory, given as a tree of files:
//
//	top, err := hw.Local()
//	choices := top.AssignDevices([][]int{{0, 1}, {2, 3}}, top.RDMACandidates()) // for two ranks, by the PUs they are bound to
//	fmt.Println(choices[1], choices[1].Path, choices[1].Warning)                // mlx5_2:1 PHB, and no warning
//
// A program that must start fast reads only what it needs:
//
//	top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs)
//	allowed, err := hw.Affinity()
//	for _, core := range top.CoresOf(allowed) { // cores that are close together are adjacent
//		fmt.Println(core) // the PUs of one core
//	}
//
// [Capture] writes the tree of a machine as an archive, which lstopo --input reads as well, and [OpenTree] opens it on another
// machine. Package hwtest makes trees from short texts. A [Topology] agrees with hwloc: a test compares the two.
//
// [LocalRDMA] reads only RDMA devices, and adds information that only the running kernel provides:
//
//	devices, err := hw.LocalRDMA()
//	for _, d := range devices {
//		if d.NUMA == 1 { // near NUMA node 1; -1 is unknown
//			fmt.Println(d.Name, d.PCI, d.CanOpen()) // mlx5_0 0000:c1:00.0 <nil>
//		}
//	}
//
// A RoCE address is an index into a port's GID table. [RDMAPort.ChooseGID] chooses it by a fixed rule:
//
//	gid, err := d.Ports[0].ChooseGID(hw.GIDRequest{})
//	fmt.Println(gid.Index, gid.Addr, gid.Reason) // 3 ::ffff:10.0.0.1 the IPv4 address of eth0
//
// All results are plain data. Nothing is cached between calls.
package hw
