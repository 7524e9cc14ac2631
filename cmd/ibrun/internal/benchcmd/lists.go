package benchcmd

import (
	"slices"
	"strings"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// The lists in the arguments of `ibrun bench`: names and numbers, separated by commas.

// listItems returns the items of a comma-separated list, without spaces around them.
func listItems(text string) []string {
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// leadingList returns the list before the flags, nil if there is none, and the other arguments.
func leadingList(args []string) (items, flags []string) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil, args
	}
	return listItems(args[0]), args[1:]
}

// opList parses a comma-separated list of operations; an empty text means all.
func opList(text string) ([]bench.Op, error) {
	if text == "" {
		return allOps(), nil
	}
	var ops []bench.Op
	for _, name := range listItems(text) {
		op, err := lookup(name)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// nameList parses a comma-separated list of known names; for an empty text it returns nil.
func nameList(flag, text string, known []string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var names []string
	for _, name := range listItems(text) {
		if !slices.Contains(known, name) {
			return nil, usagef("--%s: unknown name %q; choose from %s", flag, name, strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// numbersIn returns the numbers in ranges. A range means the powers of two in it.
func numbersIn(ranges cli.Ranges) (list []int) {
	for _, r := range ranges {
		list = append(list, bench.Ladder(r.Low, r.High)...)
	}
	return list
}

// sizesTaken returns the sizes in ranges that an operation takes, each once.
func sizesTaken(takes func(int) bool, ranges cli.Ranges) (sizes []int) {
	for _, size := range numbersIn(ranges) {
		if takes(size) && !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// sorted returns the numbers in ranges in ascending order, or those that stand for none.
func sorted(ranges cli.Ranges, none []int) []int {
	list := numbersIn(ranges)
	if list == nil {
		return none
	}
	slices.Sort(list)
	return slices.Compact(list)
}
