// Package placement decides where ranks run: on which node, on which PUs, with the memory of which NUMA nodes and
// next to which devices. It reads nothing but rank files, and starts nothing: what it decides follows from the topology,
// the affinity mask and the number of ranks alone, so every node comes to the same result.
//
//	var policy placement.Policy
//	err := policy.Set("map-by", "numa")
//	plan, err := placement.Place([]placement.Machine{{Name: host, Top: top, Allowed: top.Allowed}}, 8, policy)
//	for _, r := range plan.Ranks {
//		fmt.Println(r.Rank, r.PUs, r.Memory, r.NIC)
//	}
//
// # Mapping and binding
//
// A node is divided into the objects that [Policy.Map] names, and its ranks are dealt out to them in turn: ranks 0 and 1
// go to different NUMA nodes with --map-by numa. The ranks of one object divide its cores among themselves in equal
// shares of neighbours. A rank is bound to its share, or to what [Policy.Bind] says: the part of its share that is one
// core, or the whole objects that its share lies in. Only PUs of the affinity mask are ever used.
//
// Without a Map all cores of a node are one object. That is --map-by slot.
package placement
