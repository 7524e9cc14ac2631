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
