package core

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestImmediateForms: each immediate collective is the form of its blocking one, and the kinds of
// collectives that are ranges of operations have those whose names say so.
func TestImmediateForms(t *testing.T) {
	const all = 128 // more than there are
	found := 0
	for op := range perf.Op(all) {
		if !op.IsImmediateCollective() {
			continue
		}
		found++
		x := &Collective{Kind: op.Blocking()}
		if got := immediateForm(x.Kind); got != op {
			t.Errorf("%v: the immediate form is %v, want %v", x.Kind, got, op)
		}
		name := x.Kind.String()
		if want := strings.HasPrefix(name, "Neighbor"); x.isNeighbor() != want {
			t.Errorf("%s: a neighborhood collective: %v", name, !want)
		}
		reductions := map[string]bool{"Reduce": true, "Allreduce": true, "ReduceScatter": true, "ReduceScatterBlock": true,
			"Scan": true, "Exscan": true}
		if x.isReduction() != reductions[name] {
			t.Errorf("%s: a reduction: %v", name, x.isReduction())
		}
		rooted := map[string]bool{"Bcast": true, "Reduce": true, "Gather": true, "Gatherv": true, "Scatter": true, "Scatterv": true}
		if x.usesRoot() != rooted[name] {
			t.Errorf("%s: has a root: %v", name, x.usesRoot())
		}
	}
	if found < 20 {
		t.Errorf("only %d immediate collectives were found", found)
	}
}
