package hw

import (
	"cmp"
	"slices"
)

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

// NearestToAll returns those of the candidates that nothing is nearer than to any of some PUs: whichever of them a thread runs
// on, these are its nearest. Where the machine has several NUMA nodes and does not tell which of them is near, none is. PUs
// that it does not know are near nothing.
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

// LocalityOf is where PUs are: the NUMA node that has all of them, -1 if none has, and the numbers of the rails that nothing is
// nearer than to any of them. Of a topology without devices there are no rails.
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
