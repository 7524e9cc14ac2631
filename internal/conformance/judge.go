package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// verdict is what all tests say about a statement.
type verdict struct {
	holds bool
	tests []string // that carry its id
	why   string   // it does not hold
	scope scope    // of the tests together
}

// idElement is an element of a test's name that carries an id: S0-57, and S0-57#01 where there are several of the name.
var idElement = regexp.MustCompile(`^(S\d-K?\d+)(?:#\d+)?$`)

// carried returns the ids that a test carries, each with the name up to it.
func carried(test string) map[string]string {
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

// judge finds the verdicts, by id, from the results of each place, which are in the order of places, and from how far the tests
// went. An id that a test carries and no statement has is an error.
func judge(statements []section, all []results, went scopes) (map[string]verdict, error) {
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
		for test, came := range r {
			for id, head := range carried(test) {
				if known[id] == "" {
					return nil, fmt.Errorf("%s: there is no statement %s", test, id)
				}
				add(tests, id, head)
				if came != passed {
					add(bad, id, fmt.Sprintf("%s, %s: %s", test, places()[i].name, came))
				}
			}
		}
	}
	verdicts := map[string]verdict{}
	for id, tags := range known {
		v := verdict{tests: slices.Sorted(maps.Keys(tests[id]))}
		v.why = strings.Join(slices.Sorted(maps.Keys(bad[id])), "; ")
		for _, test := range v.tests {
			v.scope = v.scope.and(went.of(test))
		}
		switch {
		case len(v.tests) == 0:
			v.why = "no test has run"
		case v.why == "":
			v.why = v.scope.lacks(tags)
		}
		v.holds = v.why == ""
		verdicts[id] = v
	}
	return verdicts, nil
}
