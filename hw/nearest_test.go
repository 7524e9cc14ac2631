package hw_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

func TestNearestToAll(t *testing.T) {
	two := read(t, "two-sockets")
	even, odd := []int{0, 2, 4, 6, 8, 10, 12, 14}, []int{1, 3}
	if got := candidateNames(two.PCIRootCandidates()); got != "0000:10 0000:18 0000:80 0000:88" {
		t.Errorf("roots %s", got)
	}
	for _, c := range []struct {
		top        *hw.Topology
		pus        []int
		candidates string
		want       string
	}{
		{two, even, "a@0 b@0 c@1", "a b"}, // all that are equally near
		{two, odd, "a@0 b@0 c@1", "c"},
		{two, []int{0, 1}, "a@0 c@1", ""}, // each PU has another nearest device
		{two, []int{0, 1}, "a@0", "a"},    // there is no other
		{two, even, "a@-1 b@-1", ""},      // unknown
		{two, even, "c@1 a@-1", ""},       // an unknown path counts as shorter than another socket, but not as near
		{two, []int{99}, "a@0", ""},       // a PU that does not exist
		{two, nil, "a@0", ""},
		{read(t, "dies"), []int{0}, "a@0 b@1", "a"},
		{&hw.Topology{PUs: []hw.PU{{ID: 0}, {ID: 1}}, Nodes: []hw.Node{{PUs: []int{0, 1}}}}, []int{1}, "a@-1 b@-1", "a b"},
	} {
		var candidates []hw.Candidate
		for word := range strings.FieldsSeq(c.candidates) {
			candidates = append(candidates, parseCandidate("10:00.0/"+word))
		}
		if got := candidateNames(c.top.NearestToAll(c.pus, candidates)); got != c.want {
			t.Errorf("nearest to all of %v are %q of %s, want %q", c.pus, got, c.candidates, c.want)
		}
	}
}

// PUs of one NUMA node have that node and its rails. PUs of two nodes have no node.
func TestLocalityOf(t *testing.T) {
	top := read(t, "two-sockets")
	rails := len(top.Rails())
	for _, c := range []struct {
		pus  []int
		node int
	}{{[]int{1, 9}, 1}, {[]int{0}, 0}, {[]int{0, 1}, -1}, {nil, -1}, {[]int{9999}, -1}} {
		node, near := top.LocalityOf(c.pus)
		if node != c.node || !slices.IsSorted(near) || len(near) > rails || len(c.pus) == 1 && c.pus[0] == 0 && len(near) == 0 {
			t.Errorf("PUs %v: node %d, rails %v of %d", c.pus, node, near, rails)
		}
		for _, k := range near {
			if all := top.Rails(); top.NearestToAll(c.pus, all[k:k+1]) == nil {
				t.Errorf("PUs %v are not near rail %d", c.pus, k)
			}
		}
	}
}
