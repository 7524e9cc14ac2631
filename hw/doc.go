// Package hw tells what the node is made of: packages, NUMA nodes, level-3 caches, cores and PUs.
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
// Everything here is plain data. Nothing is cached between calls.
package hw
