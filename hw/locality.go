package hw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Path is what lies between two devices, or between cores and a device, in the words of nvidia-smi topo -m.
type Path string

// The paths, shortest first.
const (
	PathSelf    Path = "X"    // one and the same PCI function
	PathPIX     Path = "PIX"  // at most one PCI bridge or switch
	PathPXB     Path = "PXB"  // several of them, and no host bridge
	PathPHB     Path = "PHB"  // a PCI host bridge; from a core: the bridge of its NUMA node
	PathNode    Path = "NODE" // host bridges or NUMA nodes of one package
	PathUnknown Path = "?"    // the machine does not tell
	PathSys     Path = "SYS"  // the link between packages
)

var pathOrder = []Path{PathSelf, PathPIX, PathPXB, PathPHB, PathNode, PathUnknown, PathSys}

// Compare is negative when p is shorter than q. What is unknown counts as longer than what is known to stay within a
// package.
func (p Path) Compare(q Path) int {
	return cmp.Compare(slices.Index(pathOrder, p), slices.Index(pathOrder, q))
}

// Location is where a device is attached.
type Location struct {
	PCI      string `json:"pci,omitempty"`
	NUMA     int    `json:"numa"` // -1 when unknown
	LocalPUs []int  `json:"local_pus"`
}

// Location is where the device is attached.
func (d *RDMADevice) Location() Location { return Location{d.PCI, d.NUMA, d.LocalPUs} }

// Location is where the interface is attached.
func (n *Netdev) Location() Location { return Location{n.PCI, n.NUMA, n.LocalPUs} }

// Location is where the device is attached.
func (d *Device) Location() Location { return Location{d.PCI, d.NUMA, d.LocalPUs} }

// Location is where the function is attached.
func (d *PCIDevice) Location() Location { return Location{d.Address, d.NUMA, d.LocalPUs} }

// PathBetween tells what lies between two devices.
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

// pciBridges are those above a PCI function, the nearest first, and the root complex.
func (t *Topology) pciBridges(address string) (above []string, root string) {
	at := slices.IndexFunc(t.PCI, func(d PCIDevice) bool { return d.Address == address })
	for at >= 0 && len(above) <= len(t.PCI) {
		root = t.PCI[at].Root
		parent := t.PCI[at].Parent
		if parent == "" {
			break
		}
		above = append(above, parent)
		at = slices.IndexFunc(t.PCI, func(d PCIDevice) bool { return d.Address == parent })
	}
	return above, root
}

// PathFrom tells what lies between some cores, by their PUs, and a device: the best of them counts.
func (t *Topology) PathFrom(pus []int, s Location) Path {
	path, _ := t.pathBetweenSets(t.puSetOf(pus), t.puSetOf(t.localPUs(s)))
	return path
}

// localPUs is the PUs that are as close to a device as any, or nil when that is unknown. PUs near a device whose NUMA node
// the firmware does not know are no more than all that are switched on.
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

// puSet is some PUs with the nodes and packages that they are in.
type puSet struct {
	pus             []int // ascending
	nodes, packages map[int]bool
}

func (t *Topology) puSetOf(pus []int) puSet {
	if !slices.IsSorted(pus) {
		pus = slices.Sorted(slices.Values(pus))
	}
	a := puSet{pus, map[int]bool{}, map[int]bool{}}
	for _, pu := range t.PUs {
		if _, in := slices.BinarySearch(pus, pu.ID); in {
			a.nodes[pu.Node] = true
			a.packages[pu.Package] = true
		}
	}
	return a
}

// puSetFrom is area for many sets, for which the places of PUs were looked up once.
func puSetFrom(places map[int]PU, pus []int) puSet {
	if !slices.IsSorted(pus) {
		pus = slices.Sorted(slices.Values(pus))
	}
	a := puSet{pus, map[int]bool{}, map[int]bool{}}
	for _, id := range pus {
		if pu, known := places[id]; known {
			a.nodes[pu.Node], a.packages[pu.Package] = true, true
		}
	}
	return a
}

// pathBetweenSets finds the shortest way from one area to another, and its distance by the firmware.
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

func haveCommon(a, b map[int]bool) bool {
	for id := range a {
		if b[id] && id >= 0 {
			return true
		}
	}
	return false
}

// Candidate is a device that a rank may use: of an RDMA device with several ports, one port.
type Candidate struct {
	Name string `json:"name"`
	Port int    `json:"port,omitempty"` // from 1; 0 for devices without ports
	Location
}

// String is what UCX and NCCL call it: mlx5_0:1.
func (c Candidate) String() string {
	if c.Port == 0 {
		return c.Name
	}
	return c.Name + ":" + strconv.Itoa(c.Port)
}

// cardKey is the PCI device, of which ports may be functions and which they share a link through.
func (c Candidate) cardKey() string {
	slot, _, _ := strings.Cut(c.PCI, ".")
	return cmp.Or(slot, c.Name)
}

// RDMACandidates are the ports that can carry traffic: active, and of devices that this process can open as far as that
// is known.
func (t *Topology) RDMACandidates() []Candidate {
	var all []Candidate
	for i := range t.RDMA {
		d := &t.RDMA[i]
		if d.OtherNetns || d.AccessError != nil {
			continue
		}
		for _, p := range d.Ports {
			if p.State == PortActive {
				all = append(all, Candidate{d.Name, p.Number, d.Location()})
			}
		}
	}
	return all
}

// GPUCandidates are the GPUs that can compute: not the display of a server's management controller, or that of a virtual
// machine.
func (t *Topology) GPUCandidates() []Candidate {
	var all []Candidate
	for i := range t.GPUs {
		d := &t.GPUs[i]
		onlyShows := slices.ContainsFunc(t.PCI, func(p PCIDevice) bool {
			return p.Address == d.PCI && p.Class == classVGA && !slices.Contains(computeVendors, vendorOf(d.ID))
		})
		if !onlyShows {
			all = append(all, Candidate{Name: d.Name, Location: d.Location()})
		}
	}
	return all
}

// classVGA is the PCI class of displays with a screen.
const classVGA = "0300"

// computeVendors are the PCI vendors whose displays compute as well: AMD, NVIDIA, Intel.
var computeVendors = []string{"1002", "10de", "8086"}

// vendorOf is the first half of a PCI device's ID.
func vendorOf(id string) string {
	vendor, _, _ := strings.Cut(id, ":")
	return vendor
}

// Choice is the device that a rank is to use.
type Choice struct {
	Candidate
	Path Path `json:"path"`
	// Warning says that no device is near, and what that costs; "" otherwise.
	Warning string `json:"warning,omitempty"`
}

// Nearest returns those of the candidates that are as near to some cores, by their PUs, as any, by PCI address.
func (t *Topology) Nearest(pus []int, among []Candidate) []Candidate {
	places := t.pusByID()
	nearest, _ := t.nearestCandidates(puSetFrom(places, pus), t.candidateSets(places, among))
	return nearest
}

// candidateSet is a candidate and what is near it.
type candidateSet struct {
	Candidate
	local puSet
}

// candidateSets are the candidates by PCI address.
func (t *Topology) candidateSets(places map[int]PU, among []Candidate) []candidateSet {
	var all []candidateSet
	for _, c := range sortedByAddress(among) {
		all = append(all, candidateSet{c, puSetFrom(places, t.localPUs(c.Location))})
	}
	return all
}

func (t *Topology) nearestCandidates(a puSet, among []candidateSet) (nearest []Candidate, path Path) {
	least := 0
	for _, c := range among {
		p, distance := t.pathBetweenSets(a, c.local)
		order := cmp.Or(p.Compare(path), cmp.Compare(distance, least))
		if nearest == nil || order < 0 {
			nearest, path, least, order = nil, p, distance, 0
		}
		if order == 0 {
			nearest = append(nearest, c.Candidate)
		}
	}
	return nearest, path
}

func sortedByAddress(among []Candidate) []Candidate {
	return slices.SortedFunc(slices.Values(among), func(a, b Candidate) int {
		return cmp.Or(comparePCI(a.PCI, b.PCI), compareNumbered(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
	})
}

// AssignDevices chooses a device for each rank of a node, given the PUs that it is bound to: one of the nearest, and among those
// the one whose card, and then which itself, has the fewest ranks so far, and then the first by PCI address. It depends on
// its arguments alone, so nodes that are alike choose alike. Without candidates it returns nil.
func (t *Topology) AssignDevices(ranks [][]int, among []Candidate) []Choice {
	if len(among) == 0 {
		return nil
	}
	load := map[string]int{}
	type found struct {
		nearest []Candidate
		path    Path
	}
	known := map[string]found{} // ranks of one NUMA node ask the same
	places := t.pusByID()
	sites := t.candidateSets(places, among)
	choices := make([]Choice, 0, len(ranks))
	var a puSet
	var key string
	for rank, pus := range ranks {
		if rank == 0 || !slices.Equal(pus, ranks[rank-1]) { // ranks that are not bound have all the same
			a = puSetFrom(places, pus)
			key = fmt.Sprint(slices.Sorted(maps.Keys(a.nodes)), slices.Sorted(maps.Keys(a.packages)))
		}
		f, again := known[key]
		if !again || a.nodes[-1] {
			f.nearest, f.path = t.nearestCandidates(a, sites)
			known[key] = f
		}
		best := slices.MinFunc(f.nearest, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(load["card "+a.cardKey()], load["card "+b.cardKey()]),
				cmp.Compare(load[a.String()], load[b.String()]))
		})
		load["card "+best.cardKey()]++
		load[best.String()]++
		c := Choice{Candidate: best, Path: f.path}
		if c.Path == PathSys {
			c.Warning = fmt.Sprintf("rank %d on PUs %s is in another package than %s, the nearest device (%s): "+
				"its traffic crosses sockets", rank, FormatList(pus), best, t.describeLocation(best.Location))
		}
		choices = append(choices, c)
	}
	return choices
}

// describeLocation names the place of a device.
func (t *Topology) describeLocation(s Location) string {
	if s.NUMA >= 0 {
		return fmt.Sprintf("NUMA node %d", s.NUMA)
	}
	return "PUs " + FormatList(s.LocalPUs)
}
