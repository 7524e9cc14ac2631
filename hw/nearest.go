package hw

import (
	"cmp"
	"slices"
)

// Nearest returns the candidates nearest to some cores, given by their PUs. They are sorted by PCI address.
func (t *Topology) Nearest(pus []int, candidates []Candidate) []Candidate {
	byID := t.pusByID()
	nearest, _ := t.nearestCandidates(puSetFrom(byID, pus), t.locateCandidates(byID, candidates))
	return nearest
}

// locatedCandidate is a candidate and the PUs near it.
type locatedCandidate struct {
	Candidate
	local puSet
}

// locateCandidates returns the candidates, sorted by PCI address, with the PUs near each.
func (t *Topology) locateCandidates(byID map[int]PU, candidates []Candidate) []locatedCandidate {
	var all []locatedCandidate
	for _, c := range sortedByAddress(candidates) {
		all = append(all, locatedCandidate{c, puSetFrom(byID, t.localPUs(c.Location))})
	}
	return all
}

// nearestCandidates returns the candidates with the shortest path from a, and that path. The distance decides between
// equal paths.
func (t *Topology) nearestCandidates(a puSet, candidates []locatedCandidate) (nearest []Candidate, path Path) {
	least := 0
	for _, c := range candidates {
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

// NearestToAll returns the candidates that are candidates the nearest to every one of the PUs. Whichever of the PUs a thread
// runs on, no other candidate is nearer. It returns nil if a PU is unknown, or if the machine has several NUMA nodes and
// does not describe which of them is near a candidate.
func (t *Topology) NearestToAll(pus []int, candidates []Candidate) []Candidate {
	byID := t.pusByID()
	located := t.locateCandidates(byID, candidates)
	type location struct{ node, pack, pu int }
	seen := map[location]bool{}
	common := slices.Clone(candidates)
	for _, id := range pus {
		pu, ok := byID[id]
		if !ok {
			return nil
		}
		at := location{pu.Node, pu.Package, -1}
		if pu.Node < 0 {
			at.pu = id
		}
		if seen[at] {
			continue // the result is the same for all PUs of a node
		}
		seen[at] = true
		nearest, path := t.nearestCandidates(puSetFrom(byID, []int{id}), located)
		if path == PathUnknown && len(t.Nodes) > 1 {
			return nil
		}
		common = slices.DeleteFunc(common, func(c Candidate) bool {
			return !slices.ContainsFunc(nearest, func(n Candidate) bool { return n.String() == c.String() })
		})
	}
	if len(pus) == 0 {
		return nil
	}
	return common
}

// LocalityOf returns the NUMA node that contains all of the PUs, or -1 if no single node does, and the numbers of the
// rails that are nearest to all of them. See [Topology.Rails] and [Topology.NearestToAll]. For a topology without
// devices it returns no rails.
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
