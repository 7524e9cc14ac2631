package hw

import (
	"cmp"
	"slices"
)

// Path describes the connection between two devices, or between cores and a device, in the terms of nvidia-smi topo -m.
type Path string

// The paths, shortest first.
const (
	PathSelf    Path = "X"    // the same PCI function
	PathPIX     Path = "PIX"  // at most one PCI bridge or switch
	PathPXB     Path = "PXB"  // several PCI bridges or switches, but no host bridge
	PathPHB     Path = "PHB"  // a PCI host bridge; from a core: the bridge of its NUMA node
	PathNode    Path = "NODE" // host bridges or NUMA nodes of one package
	PathUnknown Path = "?"    // the machine does not describe it
	PathSys     Path = "SYS"  // the link between packages
)

var pathOrder = []Path{PathSelf, PathPIX, PathPXB, PathPHB, PathNode, PathUnknown, PathSys}

// Compare returns a negative number if p is shorter than q. An unknown path counts as longer than a path known to stay
// within a package.
func (p Path) Compare(q Path) int {
	return cmp.Compare(slices.Index(pathOrder, p), slices.Index(pathOrder, q))
}

// Location describes where a device is attached.
type Location struct {
	PCI      string `json:"pci,omitempty"`
	NUMA     int    `json:"numa"` // -1 when unknown
	LocalPUs []int  `json:"local_pus"`
}

// Location returns where the device is attached.
func (d *RDMADevice) Location() Location { return Location{d.PCI, d.NUMA, d.LocalPUs} }

// Location returns where the interface is attached.
func (n *Netdev) Location() Location { return Location{n.PCI, n.NUMA, n.LocalPUs} }

// Location returns where the device is attached.
func (d *Device) Location() Location { return Location{d.PCI, d.NUMA, d.LocalPUs} }

// Location returns where the function is attached.
func (d *PCIDevice) Location() Location { return Location{d.Address, d.NUMA, d.LocalPUs} }

// PathBetween returns the path between two devices.
func (t *Topology) PathBetween(a, b Location) Path {
	x, rootX := t.pciBridges(a.PCI)
	y, rootY := t.pciBridges(b.PCI)
	if a.PCI != "" && a.PCI == b.PCI {
		return PathSelf
	}
	for i, bridge := range x {
		if j := slices.Index(y, bridge); j >= 0 {
			if i <= 1 && j <= 1 {
				return PathPIX // below one bridge, or below two ports of one switch
			}
			return PathPXB
		}
	}
	if rootX != "" && rootX == rootY {
		return PathPHB
	}
	near := t.localPUs(b)
	if near == nil {
		return PathUnknown
	}
	if path, _ := t.pathBetweenSets(t.puSetOf(t.localPUs(a)), t.puSetOf(near)); path != PathPHB {
		return path
	}
	return PathNode
}

// pciBridges returns the bridges above a PCI function, the nearest first, and the root complex.
func (t *Topology) pciBridges(address string) (bridges []string, root string) {
	at := slices.IndexFunc(t.PCI, func(d PCIDevice) bool { return d.Address == address })
	for at >= 0 && len(bridges) <= len(t.PCI) {
		root = t.PCI[at].Root
		parent := t.PCI[at].Parent
		if parent == "" {
			break
		}
		bridges = append(bridges, parent)
		at = slices.IndexFunc(t.PCI, func(d PCIDevice) bool { return d.Address == parent })
	}
	return bridges, root
}

// PathFrom returns the shortest path between any of some cores, given by their PUs, and a device.
func (t *Topology) PathFrom(pus []int, s Location) Path {
	path, _ := t.pathBetweenSets(t.puSetOf(pus), t.puSetOf(t.localPUs(s)))
	return path
}

// localPUs returns the PUs closest to a device, or nil if they are unknown. If the NUMA node of a device is unknown and
// its local PUs are all online PUs, they are unknown too.
func (t *Topology) localPUs(s Location) []int {
	for _, n := range t.Nodes {
		if n.ID == s.NUMA {
			return n.Near
		}
	}
	if len(s.LocalPUs) == 0 || len(s.LocalPUs) >= len(t.PUs) {
		return nil
	}
	return s.LocalPUs
}

// puSet is a set of PUs with the NUMA nodes and packages that contain them.
type puSet struct {
	pus             []int // ascending
	nodes, packages map[int]bool
}

// newPUSet returns the set of some PUs without nodes and packages.
func newPUSet(pus []int) puSet {
	if !slices.IsSorted(pus) {
		pus = slices.Sorted(slices.Values(pus))
	}
	return puSet{pus, map[int]bool{}, map[int]bool{}}
}

// puSetOf returns the puSet of some PUs.
func (t *Topology) puSetOf(pus []int) puSet {
	set := newPUSet(pus)
	for _, pu := range t.PUs {
		if _, in := slices.BinarySearch(set.pus, pu.ID); in {
			set.nodes[pu.Node], set.packages[pu.Package] = true, true
		}
	}
	return set
}

// puSetFrom is puSetOf for callers with many sets: byID is the result of pusByID.
func puSetFrom(byID map[int]PU, pus []int) puSet {
	set := newPUSet(pus)
	for _, id := range pus {
		if pu, known := byID[id]; known {
			set.nodes[pu.Node], set.packages[pu.Package] = true, true
		}
	}
	return set
}

// pathBetweenSets returns the shortest path between two sets, and the firmware's distance between their nodes.
func (t *Topology) pathBetweenSets(a, b puSet) (Path, int) {
	if len(a.pus) == 0 || len(b.pus) == 0 {
		return PathUnknown, 0
	}
	path, distance := PathSys, 0
	for i, n := range t.Nodes {
		for j, m := range t.Nodes {
			if !a.nodes[n.ID] || !b.nodes[m.ID] || n.Distances == nil {
				continue
			}
			if d := t.Nodes[i].Distances[j]; distance == 0 || d < distance {
				distance = d
			}
		}
	}
	switch {
	case haveCommon(a.nodes, b.nodes), slices.ContainsFunc(a.pus, func(id int) bool {
		_, found := slices.BinarySearch(b.pus, id)
		return found
	}):
		path = PathPHB
	case haveCommon(a.packages, b.packages):
		path = PathNode
	}
	return path, distance
}

// haveCommon reports whether two sets have a common nonnegative member.
func haveCommon(a, b map[int]bool) bool {
	for id := range a {
		if b[id] && id >= 0 {
			return true
		}
	}
	return false
}
