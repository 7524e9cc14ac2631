package hw

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Choice is the device that a rank should use.
type Choice struct {
	Candidate
	Path Path `json:"path"`
	// Warning is not empty if no device is near. It names the cost.
	Warning string `json:"warning,omitempty"`
}

// AssignDevices chooses a device for each rank of a node. ranks holds the PUs that each rank is bound to. The device is
// one of the nearest. Among these it is one on the card with the fewest ranks so far, then the one with the fewest
// ranks, then the first by PCI address. The result depends only on the arguments, so identical nodes choose identically.
// Without candidates AssignDevices returns nil.
func (t *Topology) AssignDevices(ranks [][]int, candidates []Candidate) []Choice {
	if len(candidates) == 0 {
		return nil
	}
	load := map[string]int{}
	type found struct {
		nearest []Candidate
		path    Path
	}
	known := map[string]found{} // ranks on one NUMA node have the same result
	byID := t.pusByID()
	located := t.locateCandidates(byID, candidates)
	choices := make([]Choice, 0, len(ranks))
	var a puSet
	var key string
	for rank, pus := range ranks {
		if rank == 0 || !slices.Equal(pus, ranks[rank-1]) { // unbound ranks all have the same PUs
			a = puSetFrom(byID, pus)
			key = fmt.Sprint(slices.Sorted(maps.Keys(a.nodes)), slices.Sorted(maps.Keys(a.packages)))
		}
		f, again := known[key]
		if !again || a.nodes[-1] {
			f.nearest, f.path = t.nearestCandidates(a, located)
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

// describeLocation returns the location of a device as text for a message.
func (t *Topology) describeLocation(s Location) string {
	if s.NUMA >= 0 {
		return fmt.Sprintf("NUMA node %d", s.NUMA)
	}
	return "PUs " + FormatList(s.LocalPUs)
}
