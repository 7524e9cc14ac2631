// Package hw tells what the node is made of: packages, dies, NUMA nodes, caches, cores and PUs, and the PCI devices, RDMA
// devices, network interfaces, GPUs and NVMe disks, and which of these are near to which.
//
// A PU (processing unit) is what the kernel calls a CPU: one core, or one hardware thread of a core that has several.
// [Local] reads this machine. [Read] takes the root directory of any, as a tree of files:
//
//	top, err := hw.Local()
//	choices := top.Spread([][]int{{0, 1}, {2, 3}}, top.RDMACandidates()) // for two ranks, by the PUs they are bound to
//	fmt.Println(choices[1], choices[1].Path, choices[1].Warning)         // mlx5_2:1 PHB, and no warning
//
// Programs that start read only what they need:
//
//	top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs)
//	allowed, err := hw.Affinity()
//	for _, core := range top.CoresOf(allowed) { // neighbours stand next to each other
//		fmt.Println(core) // the PUs of one core
//	}
//
// Trees of other machines come from [Capture], which lstopo --input reads as well, and go back in through [OpenTree]. Package
// hwtest makes trees of short texts. A [Topology] agrees with hwloc: a test compares the two.
//
// [LocalRDMA] reads RDMA devices alone, and adds what only the running kernel knows:
//
//	devices, err := hw.LocalRDMA()
//	for _, d := range devices {
//		if d.NUMA == 1 { // near NUMA node 1; -1 is unknown
//			fmt.Println(d.Name, d.PCI, d.CanOpen()) // mlx5_0 0000:c1:00.0 <nil>
//		}
//	}
//
// A RoCE address is an index into a port's GID table. [RDMAPort.ChooseGID] picks it by rule:
//
//	gid, err := d.Ports[0].ChooseGID(hw.GIDRequest{})
//	fmt.Println(gid.Index, gid.Addr, gid.Reason) // 3 ::ffff:10.0.0.1 the IPv4 address of eth0
//
// Everything here is plain data. Nothing is cached between calls.
package hw
