package foreign

import (
	"slices"
	"sync"
)

// Table returns all rows.
func Table() []Spelling {
	return slices.Concat(programFlags(), hostFlags(), placementFlags(), outputFlags(), endFlags(), launcherFlags(), slurmFlags(),
		torchrunFlags())
}

// allRows returns the rows of each name. A command line is translated several times.
var allRows = sync.OnceValue(func() map[string][]*Spelling { return index(Table()) })

// index returns the rows of each name.
func index(rows []Spelling) map[string][]*Spelling {
	byName := map[string][]*Spelling{}
	for i := range rows {
		for _, name := range rows[i].Names {
			byName[name] = append(byName[name], &rows[i])
		}
	}
	return byName
}

// Names returns the names of all flags that have a counterpart here, without dashes, for suggestions.
func Names() (names []string) {
	for _, s := range Table() {
		if s.Instead == "" {
			names = append(names, s.Names...)
		}
	}
	return names
}

// Values returns the names of the values of a flag, without those that can be left out.
func Values(name string) []string {
	for _, s := range Table() {
		if slices.Contains(s.Names, name) && !s.optional {
			return s.Args
		}
	}
	return nil
}
