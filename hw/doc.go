// Package hw tells what the node is made of: packages, NUMA nodes, level-3 caches, cores and PUs, and RDMA devices.
//
// A PU (processing unit) is what the kernel calls a CPU: one core, or one hardware thread of a core that has several.
// [Read] takes the root of a sysfs tree, so captured trees of other machines can be read as well:
//
//	top, err := hw.Read(os.DirFS("/sys"))
//	allowed, err := hw.Affinity()
//	for _, core := range top.Cores(allowed) { // neighbours stand next to each other
//		fmt.Println(core) // the PUs of one core
//	}
//
// [ReadRDMA] does the same for RDMA devices, and [LocalRDMA] adds what only the running kernel knows:
//
//	devices, err := hw.LocalRDMA()
//	for _, d := range devices {
//		if d.NUMA == 1 { // near NUMA node 1
//			fmt.Println(d.Name, d.PCI, d.CanOpen()) // mlx5_0 0000:c1:00.0 <nil>
//		}
//	}
//
// A RoCE address is an index into a port's GID table. [RDMAPort.ChooseGID] picks it by rule:
//
//	gid, err := d.Ports[0].ChooseGID(hw.GIDWish{})
//	fmt.Println(gid.Index, gid.Addr, gid.Reason) // 3 ::ffff:10.0.0.1 the IPv4 address of eth0
//
// Everything here is plain data. Nothing is cached between calls.
package hw
