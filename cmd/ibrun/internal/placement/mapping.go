package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// MapToNodes returns for each rank the index of its node. It assumes that all nodes have equally many slots, so every node
// can compute it without the topology of the others.
func (p *Policy) MapToNodes(names []string, ranks int) ([]int, error) {
	if ranks < 1 || len(names) == 0 {
		return nil, fmt.Errorf("%w: %d ranks on %d nodes", ErrNoSlots, ranks, len(names))
	}
	if p.File != nil {
		return p.File.nodesOfRanks(names, ranks)
	}
	if p.Offset > 0 && len(names) > 1 {
		return nil, fmt.Errorf("%w: --offset %d requires a job on one node, but this job has %d nodes", ErrNoSlots, p.Offset,
			len(names))
	}
	if room := p.PerNode * len(names); room > 0 && ranks > room {
		return nil, fmt.Errorf("%w: %d ranks requested, but %d on each of %d nodes allow only %d", ErrNoSlots, ranks,
			p.PerNode, len(names), room)
	}
	nodes := make([]int, ranks)
	each, more := ranks/len(names), ranks%len(names)
	for i := range nodes {
		switch {
		case p.Map == Node:
			nodes[i] = i % len(names)
		case p.PerNode > 0:
			nodes[i] = i / p.PerNode
		case i < more*(each+1): // the first nodes get the remainder, one rank each
			nodes[i] = i / (each + 1)
		default:
			nodes[i] = (i - more) / each
		}
	}
	return nodes, nil
}

// Slots returns the default number of ranks of a machine: those of the rank file or of the policy, otherwise one for every
// CPUs cores, at most as many as the quota of the machine has room for, and at least one.
func (p *Policy) Slots(m Machine) (int, error) {
	n, err := newNode(m)
	if err != nil {
		return 0, err
	}
	if p.File != nil {
		return len(p.File.Lines), nil
	}
	switch {
	case p.PerNode > 0:
		return p.PerNode, nil
	case p.PerObject > 0:
		objects, err := n.objects(p)
		return p.PerObject * len(objects), err
	}
	if err := p.applyOffset(n); err != nil {
		return 0, err
	}
	units := len(n.units(n.cores, p.countsThreads()))
	if units < p.CPUs {
		return 0, fmt.Errorf("%w: each rank needs %d cores, but the node has %d", ErrNoSlots, p.CPUs, units)
	}
	slots := units / max(p.CPUs, 1)
	if m.Quota > 0 {
		slots = min(slots, max(1, int(m.Quota/float64(max(p.CPUs, 1)))))
	}
	return slots, nil
}

// applyOffset removes the slots that Offset leaves free from the cores of the node.
func (p *Policy) applyOffset(n *node) error {
	switch {
	case p.Offset == 0:
		return nil
	case p.Map != Share && p.Map != Core && p.Map != HWThread && p.Map != Node:
		return fmt.Errorf("%w: --offset counts slots and cannot be combined with --map-by %s", ErrNoSlots, p.Map)
	}
	units := n.units(n.cores, p.countsThreads())
	free := p.Offset * max(p.CPUs, 1)
	if free >= len(units) {
		return fmt.Errorf("%w: the node has %d cores, but --offset leaves %d free", ErrNoSlots, len(units), free)
	}
	n.cores = units[free:]
	return nil
}

// countsThreads reports whether the shares of ranks are counted in hardware threads instead of cores.
func (p *Policy) countsThreads() bool { return p.Map == HWThread || p.Bind == HWThread }

// assignment is the result for the ranks of one machine, in their order.
type assignment struct {
	pus     [][]int      // of each rank; nil: it is not bound
	devices []*hw.Choice // the device that each rank is mapped to; nil if ranks are not mapped to devices
	notes   []string
}

// assign assigns the ranks to the objects of Map, and the cores of each object to its ranks.
func (p *Policy) assign(n *node, ranks int, d *assignment) error {
	if err := p.applyOffset(n); err != nil {
		return err
	}
	objects, err := n.objects(p)
	if err != nil {
		return err
	}
	if p.PerObject > 0 && ranks > p.PerObject*len(objects) {
		return fmt.Errorf("%w: %d ranks requested, but %d on each %s (the node has %d) allow only %d", ErrNoSlots, ranks,
			p.PerObject, p.Map, len(objects),
			p.PerObject*len(objects))
	}
	if (p.Map == Core || p.Map == HWThread) && ranks > len(objects) { // all ranks share all cores
		objects = []object{n.wholeNode()}
	}
	objectOf := make([]int, ranks) // rank: index into objects
	for i := range objectOf {
		if objectOf[i] = i % len(objects); p.PerObject > 0 {
			objectOf[i] = i / p.PerObject
		}
	}
	if p.Map == Device {
		d.devices = make([]*hw.Choice, ranks)
		for i, o := range objectOf {
			d.devices[i] = objects[o].device
		}
	}
	d.pus = make([][]int, ranks)
	for _, set := range coreSets(objects) {
		var mine []int
		for i, o := range objectOf {
			if objects[o].coreSet == set {
				mine = append(mine, i)
			}
		}
		first := slices.IndexFunc(objects, func(o object) bool { return o.coreSet == set })
		if err := p.assignCores(n, objects[first], mine, d); err != nil {
			return err
		}
	}
	if p.Bind == Share && ranks == 1 && p.CPUs == 0 && p.Offset == 0 && (p.Map == Share || p.Map == Node) {
		d.pus[0] = nil // a single rank keeps the whole node, unbound
	}
	return nil
}

// coreSets returns the distinct core sets of the objects, ascending.
func coreSets(objects []object) []int {
	var all []int
	for _, o := range objects {
		if !slices.Contains(all, o.coreSet) {
			all = append(all, o.coreSet)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}
