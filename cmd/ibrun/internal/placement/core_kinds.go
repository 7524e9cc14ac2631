package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// coreKindWarnings warns if bound ranks run on different kinds of cores: on a hybrid machine all ranks wait for those on slow
// cores.
func (n *node) coreKindWarnings(ranks []Rank) (notes []string) {
	if len(n.top.Kinds) < 2 {
		return nil
	}
	var order []string
	on := map[string][]int{} // names of core kinds: ranks
	for _, r := range ranks {
		if !r.Bound {
			continue
		}
		var names []string
		for _, k := range n.top.Kinds {
			if slices.ContainsFunc(k.PUs, func(pu int) bool { return slices.Contains(r.PUs, pu) }) {
				names = append(names, k.Name)
			}
		}
		name := strings.Join(names, " and ")
		if on[name] == nil {
			order = append(order, name)
		}
		on[name] = append(on[name], r.Rank)
	}
	if len(order) < 2 {
		return nil
	}
	var parts []string
	for _, name := range order {
		noun := "ranks"
		if len(on[name]) == 1 {
			noun = "rank"
		}
		parts = append(parts, fmt.Sprintf("%s %s on %s", noun, hw.FormatList(on[name]), name))
	}
	return []string{"ranks run on cores of different kinds, so the slower ranks delay the others: " + strings.Join(parts, ", ")}
}
