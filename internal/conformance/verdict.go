package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// verdict is the result of all tests of a statement.
type verdict struct {
	holds bool
	tests []string // tests with its id
	why   string   // why it does not hold
	scope scope    // of the tests together
}

// idElement matches an element of a test's name that is an id: S0-57, or S0-57#01 if several subtests have the same name.
var idElement = regexp.MustCompile(`^(S\d-K?\d+)(?:#\d+)?$`)

// idsOf returns the ids in the name of a test, each with the name up to and including it.
func idsOf(test string) map[string]string {
	ids := map[string]string{}
	end := 0
	for element := range strings.SplitSeq(test, "/") {
		if end > 0 {
			end++
		}
		end += len(element)
		if m := idElement.FindStringSubmatch(element); m != nil && ids[m[1]] == "" {
			ids[m[1]] = test[:end]
		}
	}
	return ids
}

// evaluate returns the verdicts by id. all has the results for each of nodeLayouts, in the same order. evaluate returns an
// error if a test has an id that no statement has.
func evaluate(statements []section, all []results, scopesOf scopes) (map[string]verdict, error) {
	known := map[string]string{} // tags by id
	for _, section := range statements {
		for _, s := range section.statements {
			known[s.id] = s.tags
		}
	}
	tests, bad := map[string]map[string]bool{}, map[string]map[string]bool{}
	add := func(to map[string]map[string]bool, id, text string) {
		if to[id] == nil {
			to[id] = map[string]bool{}
		}
		to[id][text] = true
	}
	for i, r := range all {
		for test, got := range r {
			for id, head := range idsOf(test) {
				if known[id] == "" {
					return nil, fmt.Errorf("%s: there is no statement %s", test, id)
				}
				add(tests, id, head)
				if got != passed {
					add(bad, id, fmt.Sprintf("%s, %s: %s", test, nodeLayouts()[i].name, got))
				}
			}
		}
	}
	verdicts := map[string]verdict{}
	for id, tags := range known {
		v := verdict{tests: slices.Sorted(maps.Keys(tests[id]))}
		v.why = strings.Join(slices.Sorted(maps.Keys(bad[id])), "; ")
		for _, test := range v.tests {
			v.scope = v.scope.union(scopesOf.of(test))
		}
		switch {
		case len(v.tests) == 0:
			v.why = "no test has run"
		case v.why == "":
			v.why = v.scope.missing(tags)
		}
		v.holds = v.why == ""
		verdicts[id] = v
	}
	return verdicts, nil
}
