package topo

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// policies returns policies that use different parts of the topology.
func policies(t testing.TB) (all []placement.Policy) {
	t.Helper()
	for _, line := range []string{"", "map-by=numa", "map-by=device", "map-by=gpu bind-to=package", "map-by=ppr:2:l3cache",
		"map-by=package bind-to=numa", "map-by=core bind-to=hwthread", "map-by=l2cache bind-to=node", "cpus-per-rank=2 offset=1",
		"bind-to=l1cache", "map-by=hwthread"} {
		var p placement.Policy
		for word := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(word, "=")
			if err := p.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, p)
	}
	return all
}

// FuzzTopo reads machines with inconsistent files. Each is shown or rejected with an error of a known kind, and ranks are bound
// only to allowed PUs.
func FuzzTopo(f *testing.F) {
	machines := hwtest.Archives(f, machinesDir+"*.txtar")
	for machine := range machines {
		for i, text := range []string{"0-99\n", "\n", "", "-1\n", "7\n", "!EIO\n", "0,2\n", "..", "MemTotal: 0 kB\n", "\x1b[2J\n"} {
			f.Add(uint8(machine), uint16(i*11), text, i == 7, uint8(machine+i), uint8(1+i*5))
		}
	}
	all := policies(f)
	f.Fuzz(func(t *testing.T, machine uint8, file uint16, text string, link bool, policy, ranks uint8) {
		if len(text) > 4096 {
			return
		}
		p := all[int(policy)%len(all)]
		tree, err := hwtest.FromText(hwtest.Corrupt(machines[int(machine)%len(machines)], file, text, link))
		if err != nil {
			return // not a tree
		}
		top, err := hw.Read(tree)
		if err != nil || len(top.PUs) > 64 {
			return // nothing to show, or too large for a fuzz test
		}
		plan, err := placement.NewPlan([]placement.Machine{{Name: "m", Top: top}}, int(ranks)+1, p)
		switch {
		case err == nil:
			checkPlan(t, p, plan, top)
		case !errors.Is(err, placement.ErrNoSlots) && !errors.Is(err, placement.ErrNoObject):
			t.Errorf("%+v: %v is of no known kind", p, err)
		}
		checkShown(t, top, plan)
	})
}

func checkPlan(t *testing.T, p placement.Policy, plan *placement.Plan, top *hw.Topology) {
	t.Helper()
	for i, r := range plan.Ranks {
		forbidden := slices.ContainsFunc(r.PUs, func(pu int) bool { return !slices.Contains(top.Allowed, pu) })
		if r.Rank != i || len(r.PUs) == 0 || forbidden {
			t.Fatalf("%+v: rank %d is %+v, allowed are %v", p, i, r, top.Allowed)
		}
	}
	if plan.Report() == "" {
		t.Errorf("%+v: the report of %d ranks is empty", p, len(plan.Ranks))
	}
}

func checkShown(t *testing.T, top *hw.Topology, plan *placement.Plan) {
	t.Helper()
	picture := machineComponent("m", top, plan)
	if err := writeSVG(io.Discard, picture); err != nil {
		t.Error(err)
	}
	checkLaid(t, "m", computeLayout(picture))
	shown := renderText(picture, top, plan)
	if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
		t.Errorf("the output contains control characters: %q", shown)
	}
}
