package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scope is how far tests have gone. They tell by attributes, see testing.T.Attr:
//
//	world       3 ranks on 2 nodes, 4 processes on 2 nodes
//	namespaces  of the kernel, which ranks had for themselves: time
//	changes     what did while ranks ran: bindings
type scope struct {
	ranks, nodes int // of the largest worlds; 0 if nobody told
	processes    bool
	namespaces   map[string]bool
	changes      map[string]bool
}

// scopes are those of tests, by name with the package in front.
type scopes map[string]scope

// note takes an attribute of a test. Those of other purposes are left alone.
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
		at = at.and(w)
	case "namespaces":
		at = at.and(scope{namespaces: words(value)})
	case "changes":
		at = at.and(scope{changes: words(value)})
	default:
		return nil
	}
	s[test] = at
	return nil
}

// words are those of a list with commas.
func words(list string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.SplitSeq(list, ", ") {
		all[word] = true
	}
	return all
}

// and is how far both go.
func (s scope) and(t scope) scope {
	union := func(a, b map[string]bool) map[string]bool {
		all := maps.Clone(a)
		if all == nil {
			return b
		}
		maps.Copy(all, b)
		return all
	}
	return scope{max(s.ranks, t.ranks), max(s.nodes, t.nodes), s.processes || t.processes,
		union(s.namespaces, t.namespaces), union(s.changes, t.changes)}
}

// of is how far a test goes, with what is below it, and what it is a part of: that may have run what it looks at.
func (s scopes) of(test string) (all scope) {
	for name, at := range s {
		if name == test || strings.HasPrefix(name, test+"/") || strings.HasPrefix(test, name+"/") {
			all = all.and(at)
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

// String is the scope as the page has it.
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
