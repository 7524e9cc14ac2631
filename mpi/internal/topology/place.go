package topology

import "github.com/ibrun/ibrun/hw"

// Levels is the number of levels of hardware that Map distinguishes.
const Levels = 4

// The levels, the most expensive to cross first.
const (
	Node  = iota // machine
	NUMA         // NUMA node
	Cache        // last-level cache
	Core
)

// Place says where a process runs: the number of its node in the job, and the numbers of its NUMA node, last-level cache and
// core in their machine. A number is -1 if the process is not bound to one instance.
type Place [Levels]int32

// PlaceOf returns the place of a process that is bound to the allowed PUs of a machine.
func PlaceOf(top *hw.Topology, allowed []int, node int) Place {
	bound := map[int]bool{}
	for _, id := range allowed {
		bound[id] = true
	}
	place, first := Place{int32(node), -1, -1, -1}, true
	for _, pu := range top.PUs {
		if !bound[pu.ID] {
			continue
		}
		for level, n := range [Levels]int{NUMA: pu.Node, Cache: pu.L3, Core: pu.Core} {
			switch {
			case level == Node:
			case first:
				place[level] = int32(n)
			case place[level] != int32(n):
				place[level] = -1
			}
		}
		first = false
	}
	return place
}

// together returns the number of levels, from Node on, that two places share. A level is shared only if those above it are.
func (p *Place) together(q *Place) int {
	for level := range p {
		if p[level] != q[level] {
			return level
		}
	}
	return Levels
}

// UnknownPlace returns the place of a process of which only the node is known.
func UnknownPlace(node int) Place { return Place{int32(node), -1, -1, -1} }
