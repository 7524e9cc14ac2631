package hw_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

func TestResources(t *testing.T) {
	for machine, want := range map[string]map[string]int{
		"two-sockets": {"Machine": 1, "Package": 2, "NUMANode": 2, "L3Cache": 2, "L2Cache": 8, "L1Cache": 8, "Core": 8, "PU": 16},
		"container":   nil,
		"dies":        nil,
		"hybrid":      nil,
		"offline":     nil,
	} {
		top := read(t, machine)
		count, last := map[string]int{}, -1
		inside := map[string][]int{}
		for _, r := range top.Resources() {
			at := slices.Index(hw.ResourceTypes(), r.Type)
			if at < last || !slices.IsSorted(r.PUs) || !r.Contains(r.PUs) || !r.Overlaps(r.PUs[:1]) || r.Contains(nil) || r.Overlaps(nil) {
				t.Errorf("%s: %+v after a %s", machine, r, hw.ResourceTypes()[max(last, 0)])
			}
			last = at
			count[r.Type]++
			for _, pu := range r.PUs {
				if slices.Contains(inside[r.Type], pu) {
					t.Errorf("%s: PU %d is in two of type %s", machine, pu, r.Type)
				}
			}
			inside[r.Type] = append(inside[r.Type], r.PUs...)
		}
		for kind, n := range want {
			if count[kind] != n {
				t.Errorf("%s has %d of type %s, want %d", machine, count[kind], kind, n)
			}
		}
		if count["PU"] != len(top.PUs) || count["Core"] != len(top.Cores) {
			t.Errorf("%s: %v of %d PUs and %d cores", machine, count, len(top.PUs), len(top.Cores))
		}
	}
	// NUMA nodes and PUs have the kernel's numbers, other resources their index in hwloc's order.
	want := "Package1 1,3,5,7,9,11,13,15; NUMANode1 1,3,5,7,9,11,13,15; Core4 1,9; PU9 9"
	var got []string
	for _, r := range read(t, "two-sockets").Resources() {
		name := fmt.Sprint(r.Type, r.Number)
		if strings.Contains(want, name+" ") {
			got = append(got, name+" "+hw.FormatList(r.PUs))
		}
	}
	if strings.Join(got, "; ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// candidateNames returns the names of candidates.
func candidateNames(list []hw.Candidate) string {
	var words []string
	for _, c := range list {
		words = append(words, c.String())
	}
	return strings.Join(words, " ")
}

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

// A port that is down keeps its rail number. Devices of other network namespaces have none.
func TestRails(t *testing.T) {
	port := func(n int, state string) hw.RDMAPort { return hw.RDMAPort{Number: n, State: state} }
	top := &hw.Topology{RDMA: []hw.RDMADevice{
		{Name: "mlx5_1", PCI: "0000:41:00.0", Ports: []hw.RDMAPort{port(1, hw.PortActive)}},
		{Name: "mlx5_0", PCI: "0000:10:00.0", Ports: []hw.RDMAPort{port(1, "DOWN"), port(2, hw.PortActive)}},
		{Name: "mlx5_2", PCI: "0000:20:00.0", OtherNetns: true, Ports: []hw.RDMAPort{port(1, hw.PortActive)}},
	}}
	if got := candidateNames(top.Rails()); got != "mlx5_0:1 mlx5_0:2 mlx5_1:1" {
		t.Errorf("rails %s", got)
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
