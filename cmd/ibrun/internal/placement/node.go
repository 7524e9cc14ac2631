package placement

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// node is a machine as placement sees it.
type node struct {
	top     *hw.Topology
	name    string
	allowed []int   // ascending
	cores   [][]int // the allowed cores as PUs, neighbours next to each other
	pus     map[int]hw.PU
	known   map[Level]map[int]int // what keys found
	empty   map[int]bool          // NUMA nodes without memory
}

func newNode(m Machine) (*node, error) {
	allowed := m.Allowed
	if allowed == nil {
		allowed = m.Top.Allowed
	}
	if len(allowed) == 0 {
		return nil, fmt.Errorf("%w: the affinity mask and the cgroup leave no PU%s", ErrNoObject, bounds(m.Top))
	}
	n := &node{top: m.Top, name: m.Name, cores: m.Top.CoresOf(allowed), pus: make(map[int]hw.PU, len(m.Top.PUs)),
		known: map[Level]map[int]int{}, empty: emptyNodes(m.Top)}
	n.allowed = sorted(n.cores)
	for _, pu := range m.Top.PUs {
		n.pus[pu.ID] = pu
	}
	return n, nil
}

// bounds says what there is and what is allowed of it.
func bounds(top *hw.Topology) string {
	var on []int
	for _, pu := range top.PUs {
		on = append(on, pu.ID)
	}
	said := " of " + hw.FormatList(on)
	if top.Affinity != nil {
		said += fmt.Sprintf("; the mask is %q", hw.FormatList(top.Affinity))
	}
	if top.Cgroup != nil && top.Cgroup.PUs != nil {
		said += fmt.Sprintf("; cgroup %s has %q of them", top.Cgroup.Path, hw.FormatList(top.Cgroup.PUs))
	}
	return said
}

// emptyNodes are the NUMA nodes without memory, none on a machine that tells of no memory at all.
func emptyNodes(top *hw.Topology) map[int]bool {
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

// object is a part of the node that ranks are mapped to. Those in the same place share their cores.
type object struct {
	name   string
	place  int
	cores  [][]int
	device *hw.Choice // of which these are the cores nearby
}

// objects are what Map deals ranks out to: only those with allowed PUs.
func (n *node) objects(p *Policy) ([]object, error) {
	switch {
	case p.Map == Share, p.Map == Node, p.CPUs > 1 && (p.Map == Core || p.Map == HWThread): // a rank gets several
		return []object{n.whole()}, nil
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
			objects = append(objects, object{name: fmt.Sprintf("%s %d", p.Map, i), place: i})
			if p.Map == NUMA || p.Map == Package {
				objects[i].name = fmt.Sprintf("%s %d", p.Map, k)
			}
		}
		objects[i].cores = append(objects[i].cores, unit)
	}
	return objects, nil
}

// whole is all of the node.
func (n *node) whole() object { return object{name: wholeNode, cores: n.cores} }

const wholeNode = "the node"

// units are the cores, or their hardware threads.
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

// keys tells for each allowed PU which object of a level it is in. The numbers of NUMA nodes and packages are the
// kernel's, other objects are named by one of their PUs.
func (n *node) keys(l Level) (map[int]int, error) {
	if key, ok := n.known[l]; ok {
		return key, nil
	}
	key := make(map[int]int, len(n.allowed))
	caches := n.cacheKeys(l)
	for _, id := range n.allowed {
		pu, ok := n.pus[id]
		if !ok && l != HWThread && l != Core && l != Node {
			return nil, fmt.Errorf("%w: this machine does not tell the %s of PU %d", ErrNoObject, l, id)
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
				return nil, fmt.Errorf("%w: this machine does not tell the NUMA node of PU %d", ErrNoObject, id)
			}
			key[id] = pu.Node
		case Package:
			key[id] = pu.Package
		case Node:
			key[id] = 0
		case L3, L2, L1:
			k, ok := caches[id]
			if !ok {
				return nil, fmt.Errorf("%w: this machine does not tell the %s of PU %d", ErrNoObject, l, id)
			}
			key[id] = k
		default:
			return nil, fmt.Errorf("%w: %q", ErrNoObject, l)
		}
	}
	n.known[l] = key
	return key, nil
}

// cacheKeys tells for each PU its cache of a level. A topology that was read with [hw.OnlyPUs] has only the third.
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

// memory are the NUMA nodes that these PUs belong to, that have memory, and that the cgroup allows memory of. Nil when
// that is not known of all of them, or when there is none: memory then is the kernel's choice, which is what is nearest.
func (n *node) memory(pus []int) []int {
	var nodes []int
	for _, id := range pus {
		pu, ok := n.pus[id]
		if !ok || pu.Node < 0 {
			return nil
		}
		refused := n.top.Cgroup != nil && n.top.Cgroup.Nodes != nil && !slices.Contains(n.top.Cgroup.Nodes, pu.Node)
		if !refused && !n.empty[pu.Node] && !slices.Contains(nodes, pu.Node) {
			nodes = append(nodes, pu.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
