package hw

import (
	"slices"
	"strings"
)

// Resource is a part of the machine that PUs belong to.
type Resource struct {
	// Type is what hwloc calls it: Machine, Package, NUMANode, L3Cache, L2Cache, L1Cache, Core or PU.
	Type string
	// Number tells it from others of its type: of NUMANode and PU the kernel's, as numactl and taskset take it; of others
	// the place in the Topology's list, which is hwloc's logical index.
	Number int
	// PUs are those in it, ascending.
	PUs []int
}

// ResourceTypes are the types of resources, the largest first.
func ResourceTypes() []string {
	return []string{"Machine", "Package", "NUMANode", "L3Cache", "L2Cache", "L1Cache", "Core", "PU"}
}

// Resources lists all resources that have PUs, in the order of ResourceTypes and within a type by number. A type that the
// machine does not tell of is left out: some have no level-3 cache, virtual ones often no caches at all.
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

// Contains tells whether all these PUs are in the resource. Of no PUs it is false.
func (r *Resource) Contains(pus []int) bool {
	for _, pu := range pus {
		if _, in := slices.BinarySearch(r.PUs, pu); !in {
			return false
		}
	}
	return len(pus) > 0
}

// Overlaps tells whether any of these PUs is in the resource.
func (r *Resource) Overlaps(pus []int) bool {
	return slices.ContainsFunc(pus, func(pu int) bool {
		_, in := slices.BinarySearch(r.PUs, pu)
		return in
	})
}

// Rails are the ports of RDMA devices, by PCI address: rail K is number K of them. On nodes that are built alike the same
// rail is the same port, and where networks have rails it leads to the same switch. So ports count that are down, and
// devices that this process cannot open.
func (t *Topology) Rails() []Candidate {
	var all []Candidate
	for i := range t.RDMA {
		d := &t.RDMA[i]
		for _, p := range d.Ports {
			if !d.OtherNetns {
				all = append(all, Candidate{d.Name, p.Number, d.Location()})
			}
		}
	}
	return sortedByAddress(all)
}

// PCIRootCandidates are the PCI root complexes that have devices below them, by the number of their bus: 0000:3a.
func (t *Topology) PCIRootCandidates() []Candidate {
	var all []Candidate
	for i := range t.PCI {
		d := &t.PCI[i]
		name, ok := strings.CutPrefix(d.Root, "pci")
		bridge := strings.HasPrefix(d.Class, "06")
		if ok && !bridge && !slices.ContainsFunc(all, func(c Candidate) bool { return c.Name == name }) {
			all = append(all, Candidate{Name: name, Location: d.Location()})
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// NearestToAll returns those of the candidates that nothing is nearer than to any of some PUs: whichever of them a thread runs
// on, these are its nearest. Where the machine has several NUMA nodes and does not tell which of them is near, none is. PUs
// that it does not know are near nothing.
func (t *Topology) NearestToAll(pus []int, among []Candidate) []Candidate {
	known := t.pusByID()
	sites := t.candidateSets(known, among)
	type spot struct{ node, pack, pu int }
	seen := map[spot]bool{}
	around := slices.Clone(among)
	for _, id := range pus {
		pu, ok := known[id]
		if !ok {
			return nil
		}
		at := spot{pu.Node, pu.Package, -1}
		if pu.Node < 0 {
			at.pu = id
		}
		if seen[at] {
			continue // what is near is near a whole node
		}
		seen[at] = true
		nearest, path := t.nearestCandidates(puSetFrom(known, []int{id}), sites)
		if path == PathUnknown && len(t.Nodes) > 1 {
			return nil
		}
		around = slices.DeleteFunc(around, func(c Candidate) bool {
			return !slices.ContainsFunc(nearest, func(n Candidate) bool { return n.String() == c.String() })
		})
	}
	if len(pus) == 0 {
		return nil
	}
	return around
}

// LocalityOf is where PUs are: the NUMA node that has all of them, -1 if none has, and the numbers of the rails that nothing is
// nearer than to any of them. Of a topology without devices there are no rails.
func (t *Topology) LocalityOf(pus []int) (node int, rails []int) {
	node = -1
	if nodes := t.puSetOf(pus).nodes; len(nodes) == 1 {
		for node = range nodes {
		}
	}
	all := t.Rails()
	for _, near := range t.NearestToAll(pus, all) {
		rails = append(rails, slices.IndexFunc(all, func(c Candidate) bool { return c.String() == near.String() }))
	}
	slices.Sort(rails)
	return node, rails
}
