package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scope describes under which conditions tests have run. Tests report it by attributes (testing.T.Attr):
//
//	world       3 ranks on 2 nodes, 4 processes on 2 nodes
//	namespaces  the kernel's namespaces that ranks had of their own: time
//	changes     what changed while ranks ran: bindings
type scope struct {
	ranks, nodes int // of the largest worlds; 0 if no test reported them
	processes    bool
	namespaces   map[string]bool
	changes      map[string]bool
}

// scopes are the scopes of tests, by name with the package in front.
type scopes map[string]scope

// note records an attribute of a test. It ignores attributes with other keys.
func (s scopes) note(test, key, value string) error {
	at := s[test]
	switch key {
	case "world":
		var w scope
		var what string
		if _, err := fmt.Sscanf(value, "%d %s on %d nodes", &w.ranks, &what, &w.nodes); err != nil {
			return fmt.Errorf("%s: its world is %q: %w", test, value, err)
		}
		w.processes = what == "processes"
		at = at.union(w)
	case "namespaces":
		at = at.union(scope{namespaces: words(value)})
	case "changes":
		at = at.union(scope{changes: words(value)})
	default:
		return nil
	}
	s[test] = at
	return nil
}

// words returns the words of a list with commas.
func words(list string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.SplitSeq(list, ", ") {
		all[word] = true
	}
	return all
}

// union returns the scope of two tests together.
func (s scope) union(t scope) scope {
	merge := func(a, b map[string]bool) map[string]bool {
		all := maps.Clone(a)
		if all == nil {
			return b
		}
		maps.Copy(all, b)
		return all
	}
	return scope{max(s.ranks, t.ranks), max(s.nodes, t.nodes), s.processes || t.processes,
		merge(s.namespaces, t.namespaces), merge(s.changes, t.changes)}
}

// of returns the scope of a test together with those of its subtests and of the tests that contain it: these may have run the
// world whose results the test checks.
func (s scopes) of(test string) (all scope) {
	for name, at := range s {
		if name == test || strings.HasPrefix(name, test+"/") || strings.HasPrefix(test, name+"/") {
			all = all.union(at)
		}
	}
	return all
}

// missing returns what the scope lacks for a statement with these tags, or "".
func (s scope) missing(tags string) string {
	switch {
	case strings.Contains(tags, "N") && s.nodes < 2:
		return "no test had several nodes"
	case strings.Contains(tags, "M") && s.ranks < 2:
		return "no test had several ranks"
	case strings.Contains(tags, "T") && len(s.changes) == 0:
		return "nothing changed in any test"
	}
	return ""
}

// String returns the scope as the page shows it.
func (s scope) String() string {
	var parts []string
	switch {
	case s.ranks > 1 && s.nodes > 1:
		parts = append(parts, fmt.Sprintf("%d ranks, %d nodes", s.ranks, s.nodes))
	case s.ranks > 1:
		parts = append(parts, fmt.Sprintf("%d ranks", s.ranks))
	}
	if s.processes {
		parts = append(parts, "processes")
	}
	if len(s.namespaces) > 0 {
		parts = append(parts, "namespaces: "+strings.Join(slices.Sorted(maps.Keys(s.namespaces)), ", "))
	}
	if len(s.changes) > 0 {
		parts = append(parts, "changes: "+strings.Join(slices.Sorted(maps.Keys(s.changes)), ", "))
	}
	return strings.Join(parts, "; ")
}
