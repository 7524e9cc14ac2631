package placement

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// node is one machine with the indexes that placement needs.
type node struct {
	top      *hw.Topology
	name     string
	allowed  []int   // ascending
	cores    [][]int // the allowed cores as PUs, neighbours next to each other
	pus      map[int]hw.PU
	keyCache map[Level]map[int]int // the results of keys
	noMemory map[int]bool          // NUMA nodes without memory
}

func newNode(m Machine) (*node, error) {
	allowed := m.Allowed
	if allowed == nil {
		allowed = m.Top.Allowed
	}
	if len(allowed) == 0 {
		return nil, fmt.Errorf("%w: the affinity mask and the cgroup allow no PU%s", ErrNoObject, describeAllowed(m.Top))
	}
	n := &node{top: m.Top, name: m.Name, cores: m.Top.CoresOf(allowed), pus: make(map[int]hw.PU, len(m.Top.PUs)),
		keyCache: map[Level]map[int]int{}, noMemory: nodesWithoutMemory(m.Top)}
	n.allowed = sortedPUs(n.cores)
	for _, pu := range m.Top.PUs {
		n.pus[pu.ID] = pu
	}
	return n, nil
}

// describeAllowed describes which PUs the machine has, and which the affinity mask and the cgroup allow.
func describeAllowed(top *hw.Topology) string {
	var on []int
	for _, pu := range top.PUs {
		on = append(on, pu.ID)
	}
	text := " of " + hw.FormatList(on)
	if top.Affinity != nil {
		text += fmt.Sprintf("; the affinity mask is %q", hw.FormatList(top.Affinity))
	}
	if top.Cgroup != nil && top.Cgroup.PUs != nil {
		text += fmt.Sprintf("; cgroup %s allows %q", top.Cgroup.Path, hw.FormatList(top.Cgroup.PUs))
	}
	return text
}

// nodesWithoutMemory returns the NUMA nodes without memory. It returns none if the machine reports no memory for any node.
func nodesWithoutMemory(top *hw.Topology) map[int]bool {
	empty := map[int]bool{}
	for _, node := range top.Nodes {
		if node.Memory == 0 {
			empty[node.ID] = true
		}
	}
	if len(empty) == len(top.Nodes) {
		return nil
	}
	return empty
}

// object is a part of the node that ranks are mapped to. Objects with the same coreSet have the same cores: their ranks share
// them.
type object struct {
	name    string
	coreSet int
	cores   [][]int
	device  *hw.Choice // the device that cores are near to; nil if the object is not a device
}

// objects returns the objects of p.Map that contain allowed PUs.
func (n *node) objects(p *Policy) ([]object, error) {
	switch {
	case p.Map == Share, p.Map == Node, p.CPUs > 1 && (p.Map == Core || p.Map == HWThread): // a rank gets several
		return []object{n.wholeNode()}, nil
	case p.Map == Device:
		return n.deviceObjects(p.Device)
	}
	key, err := n.keys(p.Map)
	if err != nil {
		return nil, err
	}
	var objects []object
	index := map[int]int{}
	for _, unit := range n.units(n.cores, p.Map == HWThread) {
		k := key[unit[0]]
		i, ok := index[k]
		if !ok {
			i = len(objects)
			index[k] = i
			objects = append(objects, object{name: fmt.Sprintf("%s %d", p.Map, i), coreSet: i})
			if p.Map == NUMA || p.Map == Package {
				objects[i].name = fmt.Sprintf("%s %d", p.Map, k)
			}
		}
		objects[i].cores = append(objects[i].cores, unit)
	}
	return objects, nil
}

// wholeNode returns the object that contains all cores of the node.
func (n *node) wholeNode() object { return object{name: wholeNodeName, cores: n.cores} }

const wholeNodeName = "the node"

// units returns the cores, or their hardware threads if threads is set.
func (n *node) units(cores [][]int, threads bool) [][]int {
	if !threads {
		return cores
	}
	var units [][]int
	for _, core := range cores {
		for _, pu := range core {
			units = append(units, []int{pu})
		}
	}
	return units
}

// keys returns for each allowed PU the object of a level that contains it. NUMA nodes and packages have the kernel's numbers,
// other objects are identified by one of their PUs.
func (n *node) keys(l Level) (map[int]int, error) {
	if key, ok := n.keyCache[l]; ok {
		return key, nil
	}
	key := make(map[int]int, len(n.allowed))
	caches := n.cacheKeys(l)
	for _, id := range n.allowed {
		pu, ok := n.pus[id]
		if !ok && l != HWThread && l != Core && l != Node {
			return nil, fmt.Errorf("%w: this machine does not report the %s of PU %d", ErrNoObject, l, id)
		}
		switch l {
		case HWThread:
			key[id] = id
		case Core:
			if key[id] = id; ok {
				key[id] = pu.Core
			}
		case NUMA:
			if pu.Node < 0 {
				return nil, fmt.Errorf("%w: this machine does not report the NUMA node of PU %d", ErrNoObject, id)
			}
			key[id] = pu.Node
		case Package:
			key[id] = pu.Package
		case Node:
			key[id] = 0
		case L3, L2, L1:
			k, ok := caches[id]
			if !ok {
				return nil, fmt.Errorf("%w: this machine does not report the %s of PU %d", ErrNoObject, l, id)
			}
			key[id] = k
		default:
			return nil, fmt.Errorf("%w: %q", ErrNoObject, l)
		}
	}
	n.keyCache[l] = key
	return key, nil
}

// cacheKeys returns for each PU its cache of a level. A topology that was read with [hw.OnlyPUs] has only level 3.
func (n *node) cacheKeys(l Level) map[int]int {
	depth, ok := map[Level]int{L1: 1, L2: 2, L3: 3}[l]
	if !ok {
		return nil
	}
	keys := map[int]int{}
	for _, c := range n.top.Caches {
		if c.Level != depth || c.Type == "Instruction" {
			continue
		}
		for _, pu := range c.PUs {
			keys[pu] = c.PUs[0] // the lowest
		}
	}
	if l == L3 && len(n.top.Caches) == 0 {
		for _, pu := range n.top.PUs {
			keys[pu.ID] = pu.L3
		}
	}
	return keys
}

// memory returns the NUMA nodes of these PUs that have memory and whose memory the cgroup allows. It returns nil if the node
// of a PU is unknown or no node qualifies: the kernel then chooses the nearest memory.
func (n *node) memory(pus []int) []int {
	var nodes []int
	for _, id := range pus {
		pu, ok := n.pus[id]
		if !ok || pu.Node < 0 {
			return nil
		}
		refused := n.top.Cgroup != nil && n.top.Cgroup.Nodes != nil && !slices.Contains(n.top.Cgroup.Nodes, pu.Node)
		if !refused && !n.noMemory[pu.Node] && !slices.Contains(nodes, pu.Node) {
			nodes = append(nodes, pu.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
