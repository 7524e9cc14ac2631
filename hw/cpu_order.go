package hw

import (
	"cmp"
	"slices"
)

// sortLists sorts all lists. The sort key of a PU is the chain of sets that contain it, the largest set first. Each set
// is represented by its lowest PU.
func (r *cpuReader) sortLists() {
	t := r.top
	for _, p := range t.Packages {
		r.addGroup(p.PUs)
	}
	for _, d := range t.Dies {
		r.addGroup(d.PUs)
	}
	for _, n := range t.Nodes {
		if len(n.Near) < len(r.online) {
			r.addGroup(n.Near)
		}
	}
	slices.SortStableFunc(r.groups, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	chains := map[int][]int{}
	for _, pus := range r.groups {
		for _, id := range pus {
			chains[id] = append(chains[id], pus[0])
		}
	}
	slices.SortFunc(t.PUs, func(a, b PU) int {
		return cmp.Or(slices.Compare(chains[a.ID], chains[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	position := map[int]int{}
	for i, pu := range t.PUs {
		position[pu.ID] = i
	}
	by := func(a, b []int) int { return cmp.Compare(position[a[0]], position[b[0]]) }
	slices.SortFunc(t.Packages, func(a, b Package) int { return by(a.PUs, b.PUs) })
	slices.SortFunc(t.Dies, func(a, b Die) int { return by(a.PUs, b.PUs) })
	slices.SortFunc(t.Cores, func(a, b Core) int { return by(a.PUs, b.PUs) })
	slices.SortStableFunc(t.Caches, func(a, b Cache) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(cacheOrder(a), cacheOrder(b)), by(a.PUs, b.PUs))
	})
	r.sortNodes(position)
}

// sortNodes sorts the nodes by the last PU of Near, so that a node with fewer local PUs precedes one with more. It
// reorders the distances in the same way.
func (r *cpuReader) sortNodes(position map[int]int) {
	last := make([]int, len(r.top.Nodes))
	order := make([]int, len(r.top.Nodes))
	for i, n := range r.top.Nodes {
		order[i] = i
		for _, id := range n.Near {
			last[i] = max(last[i], position[id])
		}
	}
	nodes := r.top.Nodes
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(last[i], last[j]), cmp.Compare(len(nodes[i].Near), len(nodes[j].Near)), cmp.Compare(i, j))
	})
	r.top.Nodes = make([]Node, len(nodes))
	for i, from := range order {
		n := nodes[from]
		if n.Distances != nil {
			n.Distances = make([]int, len(nodes))
			for j, to := range order {
				n.Distances[j] = nodes[from].Distances[to]
			}
		}
		r.top.Nodes[i] = n
	}
}
