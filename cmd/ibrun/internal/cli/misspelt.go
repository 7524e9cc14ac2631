package cli

import (
	"slices"
	"strings"

	"github.com/ibrun/ibrun/internal/tunables"
)

// Misspelling is a variable of the environment that nothing reads.
type Misspelling struct {
	Name  string
	Meant string // a variable that ibrun or the library reads
}

// Misspelt returns the variables of an environment whose names are nearly those of variables that ibrun or the library reads. A
// name that only begins with IBRUN_ may be a user's own. A variable that is set to nothing counts as one that is not set, as
// everywhere in ibrun.
func Misspelt(env []string) (list []Misspelling) {
	const (
		prefix   = "IBRUN_"
		shortest = len(prefix) + 5 // letters; short names are near to many others
		furthest = 2               // as far as two letters that have changed places
	)
	known := variables()
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, prefix) || len(name) < shortest || value == "" || slices.Contains(known, name) {
			continue
		}
		if near, distance := closest(name, known); distance <= furthest {
			list = append(list, Misspelling{name, near})
		}
	}
	return list
}

// variables returns the names of all variables that users may set.
func variables() []string {
	names := append(tunables.Variables(), tunables.Heartbeat, tunables.Checksum, "IBRUN_CHECK", "IBRUN_COLLECTIVES", "IBRUN_PERF",
		"IBRUN_RUNTIME_DIR", "IBRUN_VERBS_PROVIDER")
	for _, f := range append(new(Program).flags(LookupEnv(nil)), new(Options).jobFlags()...) {
		for _, name := range f.names {
			names = append(names, variableName(name))
		}
	}
	return names
}
