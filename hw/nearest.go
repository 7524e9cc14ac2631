package hw

import (
	"cmp"
	"slices"
)

// Nearest returns the candidates nearest to some cores, given by their PUs. They are sorted by PCI address.
func (t *Topology) Nearest(pus []int, among []Candidate) []Candidate {
	places := t.pusByID()
	nearest, _ := t.nearestCandidates(puSetFrom(places, pus), t.candidateSets(places, among))
	return nearest
}

// candidateSet is a candidate and the PUs near it.
type candidateSet struct {
	Candidate
	local puSet
}

// candidateSets returns the candidates, sorted by PCI address, with the PUs near each.
func (t *Topology) candidateSets(places map[int]PU, among []Candidate) []candidateSet {
	var all []candidateSet
	for _, c := range sortedByAddress(among) {
		all = append(all, candidateSet{c, puSetFrom(places, t.localPUs(c.Location))})
	}
	return all
}

// nearestCandidates returns the candidates with the shortest path from a, and that path. The distance decides between
// equal paths.
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

// NearestToAll returns the candidates that are among the nearest to every one of the PUs. Whichever of the PUs a thread
// runs on, no other candidate is nearer. It returns nil if a PU is unknown, or if the machine has several NUMA nodes and
// does not describe which of them is near a candidate.
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
