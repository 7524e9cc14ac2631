// Package placement decides where ranks run: on which node, on which PUs, with the memory of which NUMA nodes and
// next to which devices. It reads only rank files, and starts nothing: the result depends only on the topology, the affinity
// mask and the number of ranks, so every node computes the same result.
//
//	var policy placement.Policy
//	err := policy.Set("map-by", "numa")
//	plan, err := placement.NewPlan([]placement.Machine{{Name: host, Top: top, Allowed: top.Allowed}}, 8, policy)
//	for _, r := range plan.Ranks {
//		fmt.Println(r.Rank, r.PUs, r.Memory, r.NIC)
//	}
//
// # Mapping and binding
//
// A node is divided into the objects that [Policy.Map] names, and its ranks are assigned to them round-robin: ranks 0 and 1
// go to different NUMA nodes with --map-by numa. Each rank of an object gets an equal share of its cores; the cores of a
// share are neighbours. A rank is bound to its share, or to the objects that [Policy.Bind] names: to one core of its share,
// or to the whole caches, NUMA nodes or packages that contain its share. Only PUs of the affinity mask are used.
//
// Without a Map all cores of a node are one object. That is --map-by slot.
package placement
