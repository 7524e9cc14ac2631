package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// MaxRanks is the largest number of ranks of a job.
const MaxRanks = 1 << 20

// MapToNodes returns for each rank the index of its node. slots is how many ranks each node has room for; 0 means an equal
// share of the ranks that the other nodes have no room for. If slots is nil, all nodes have equally many, so every node can
// compute the result without the topology of the others. More ranks than slots share them in proportion.
func (p *Policy) MapToNodes(names []string, slots []int, ranks int) ([]int, error) {
	if ranks < 1 || len(names) == 0 {
		return nil, fmt.Errorf("%w: %d ranks on %d nodes", ErrNoSlots, ranks, len(names))
	}
	if p.File != nil {
		return p.File.nodesOfRanks(names, ranks)
	}
	if p.Offset > 0 && len(names) > 1 && slots == nil {
		return nil,
			fmt.Errorf("%w: --offset %d requires a job on one node, or --hosts or a scheduler that say how many slots each has, "+
				"but this job has %d nodes", ErrNoSlots, p.Offset, len(names))
	}
	if p.PerNode > 0 && slots == nil {
		slots = slices.Repeat([]int{p.PerNode}, len(names))
		if room := p.PerNode * len(names); ranks > room {
			return nil, fmt.Errorf("%w: %d ranks requested, but %d on each of %d nodes allow only %d", ErrNoSlots, ranks,
				p.PerNode, len(names), room)
		}
	}
	if p.Map == Node {
		return mapCyclic(len(names), slots, ranks), nil
	}
	nodes := make([]int, 0, ranks)
	for node, n := range divideRanks(len(names), slots, ranks) {
		for range min(n, ranks-len(nodes)) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// divideRanks returns how many ranks each node has room for, which is enough for all ranks.
func divideRanks(nodes int, slots []int, ranks int) []int {
	room := make([]int, nodes)
	copy(room, slots)
	sum, unknown := 0, 0
	for _, n := range room {
		if sum += n; n == 0 {
			unknown++
		}
	}
	if unknown > 0 { // the first ones get the remainder, one rank each
		left := max(ranks-sum, 0)
		each, more := left/unknown, left%unknown
		for i := range room {
			if room[i] == 0 {
				room[i] = each
				if more > 0 {
					room[i]++
					more--
				}
			}
		}
		return room
	}
	if ranks <= sum {
		return room
	}
	before, end := 0, 0 // slots of the nodes up to this one, and the ranks on them
	for i, n := range room {
		before += n
		next := (before*ranks + sum - 1) / sum
		room[i], end = next-end, next
	}
	return room
}

// mapCyclic distributes the ranks round-robin to the nodes that have slots left, and to all nodes again if none has.
func mapCyclic(nodes int, slots []int, ranks int) []int {
	list := make([]int, 0, ranks)
	for pass := 0; len(list) < ranks; pass++ {
		before := len(list)
		for node := 0; node < nodes && len(list) < ranks; node++ {
			if slots == nil || slots[node] == 0 || pass < slots[node] {
				list = append(list, node)
			}
		}
		if len(list) == before { // all slots are used
			slots = nil
		}
	}
	return list
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
	if err := p.applyOffset(n, 0); err != nil {
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

// applyOffset removes the cores of slots that this job does not use from the cores of the node: those before Offset, and those
// after the given number of ranks, or none if that is 0.
func (p *Policy) applyOffset(n *node, ranks int) error {
	switch {
	case !p.Packed:
		return nil
	case p.Map != Share && p.Map != Core && p.Map != HWThread && p.Map != Node:
		return fmt.Errorf("%w: --offset counts slots and cannot be combined with --map-by %s", ErrNoSlots, p.Map)
	}
	units := n.units(n.cores, p.countsThreads())
	if p.NodeSlots > 0 && p.CPUs == 0 && ranks > 0 { // each slot has an equal share of the cores
		first := min(p.Offset*len(units)/p.NodeSlots, len(units)-1)
		end := min((p.Offset+ranks)*len(units)/p.NodeSlots, len(units))
		n.cores = units[first:max(end, first+1)]
		return nil
	}
	free := p.Offset * max(p.CPUs, 1)
	if free >= len(units) {
		return fmt.Errorf("%w: the node has %d cores, and --offset skips %d", ErrNoSlots, len(units), free)
	}
	n.cores = units[free:]
	if ranks > 0 {
		n.cores = n.cores[:min(ranks*max(p.CPUs, 1), len(n.cores))]
	}
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
	if err := p.applyOffset(n, ranks); err != nil {
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
	if p.Bind == Share && ranks == 1 && p.CPUs == 0 && !p.Packed && (p.Map == Share || p.Map == Node) {
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
