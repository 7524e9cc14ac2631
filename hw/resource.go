package hw

import (
	"slices"
)

// Resource is a part of the machine that contains PUs.
type Resource struct {
	// Type is the name of the type in hwloc: Machine, Package, NUMANode, L3Cache, L2Cache, L1Cache, Core or PU.
	Type string
	// Number identifies the resource within its type. For NUMANode and PU it is the kernel's number, which numactl and
	// taskset accept. For other types it is the index in the Topology's list, which is hwloc's logical index.
	Number int
	// PUs are the PUs of the resource, ascending.
	PUs []int
}

// ResourceTypes returns the types of resources, the largest first.
func ResourceTypes() []string {
	return []string{"Machine", "Package", "NUMANode", "L3Cache", "L2Cache", "L1Cache", "Core", "PU"}
}

// Resources returns all resources that have PUs, in the order of ResourceTypes, and within a type by number. A type that
// the machine does not describe is left out. Some machines have no level-3 cache; virtual ones often describe no caches
// at all.
func (t *Topology) Resources() []Resource {
	machine := Resource{Type: "Machine"}
	var pus []Resource
	for _, pu := range t.PUs {
		machine.PUs = append(machine.PUs, pu.ID)
		pus = append(pus, Resource{"PU", pu.ID, []int{pu.ID}})
	}
	slices.Sort(machine.PUs)
	all := []Resource{machine}
	add := func(kind string, number int, pus []int) {
		if len(pus) > 0 {
			all = append(all, Resource{kind, number, pus})
		}
	}
	for i, p := range t.Packages {
		add("Package", i, p.PUs)
	}
	for _, n := range t.Nodes {
		add("NUMANode", n.ID, n.PUs)
	}
	for level, kind := range map[int]string{3: "L3Cache", 2: "L2Cache", 1: "L1Cache"} {
		number := 0
		for _, c := range t.Caches {
			if c.Level == level && c.Type != "Instruction" {
				add(kind, number, c.PUs)
				number++
			}
		}
	}
	for i, c := range t.Cores {
		add("Core", i, c.PUs)
	}
	all = append(all, pus...)
	types := ResourceTypes()
	slices.SortStableFunc(all, func(a, b Resource) int {
		if a.Type == b.Type {
			return a.Number - b.Number
		}
		return slices.Index(types, a.Type) - slices.Index(types, b.Type)
	})
	return all
}

// Contains reports whether all these PUs are in the resource. It returns false for an empty list.
func (r *Resource) Contains(pus []int) bool {
	for _, pu := range pus {
		if _, in := slices.BinarySearch(r.PUs, pu); !in {
			return false
		}
	}
	return len(pus) > 0
}

// Overlaps reports whether any of these PUs is in the resource.
func (r *Resource) Overlaps(pus []int) bool {
	return slices.ContainsFunc(pus, func(pu int) bool {
		_, in := slices.BinarySearch(r.PUs, pu)
		return in
	})
}
