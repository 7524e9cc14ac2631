package cli

import (
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli/foreign"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// Flag is a flag of the command line, for completions.
type Flag struct {
	// Name is the flag with its dashes, Help its description.
	Name, Help string
	// Foreign means that it is a flag of other launchers.
	Foreign bool
}

// Flags returns the flags that the help lists, and then those of other launchers that have a counterpart.
func Flags() (all []Flag) {
	known := map[string]bool{}
	for _, f := range append(new(Program).flags(nil), new(Options).jobFlags()...) {
		for _, name := range f.names {
			if known[name] = true; f.help != "" {
				help, _, _ := strings.Cut(f.help, "\n")
				all = append(all, Flag{Name: manual.WithDashes(name), Help: help})
			}
		}
	}
	for _, s := range foreign.Table() {
		for _, name := range s.Names {
			if s.Instead == "" && !known[name] {
				known[name] = true
				all = append(all, Flag{Name: manual.WithDashes(name), Help: "of " + s.Of.String(), Foreign: true})
			}
		}
	}
	return all
}

// values returns the names of the values of a flag, of ibrun or of another launcher.
func values(name string) []string {
	if f := findFlag(append(new(Program).flags(nil), new(Options).jobFlags()...), name); f != nil {
		if f.arg == "" {
			return nil
		}
		return []string{f.arg}
	}
	return foreign.Values(name)
}

// ValueCount returns how many words after a flag are its values. It is 0 for an unknown flag.
func ValueCount(name string) int { return len(values(name)) }

// ValueName returns the name of the first value of a flag, such as FILE, or an empty string.
func ValueName(name string) string {
	if names := values(name); len(names) > 0 {
		return names[0]
	}
	return ""
}
