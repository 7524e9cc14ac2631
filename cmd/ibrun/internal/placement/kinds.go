package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// kinds warns of bound ranks that do not run on the same kinds of cores: on a hybrid machine all wait for those on the slow
// ones.
func (n *node) kinds(ranks []Rank) (notes []string) {
	if len(n.top.Kinds) < 2 {
		return nil
	}
	var order []string
	on := map[string][]int{} // names of kinds: ranks
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
		who := "ranks"
		if len(on[name]) == 1 {
			who = "rank"
		}
		parts = append(parts, fmt.Sprintf("%s %s on %s", who, hw.FormatList(on[name]), name))
	}
	return []string{"cores are not alike, and the slower ranks hold up the others: " + strings.Join(parts, ", ")}
}
