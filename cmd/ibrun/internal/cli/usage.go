package cli

import (
	"fmt"
	"strings"
)

// Usage returns the text of ibrun help.
func Usage() string {
	var b strings.Builder
	b.WriteString(`ibrun starts the ranks of a parallel program.

	ibrun [FLAG...] PROGRAM [ARGUMENT...] [: [FLAG...] PROGRAM [ARGUMENT...]]...

PROGRAM is a directory with a Go program or a .go file, which is built first, or any program. Standard input goes to rank 0.

`)
	list := func(flags []flag) {
		for _, f := range flags {
			fmt.Fprintf(&b, "  %-26s %s\n", f.spelling(), f.help)
		}
	}
	list(append(new(Program).flags(nil), new(Options).flags()...))
	b.WriteString("\nOn several machines start the same command on each, with:\n\n")
	list(new(Options).nodeFlags())
	b.WriteString(`
A flag takes one or two dashes and may be given as a variable, --dry-run as IBRUN_DRY_RUN=1. After the first ":" only -n, --wdir
and -x are allowed. Other commands, as first word: bench, doctor, explain, soft-roce, topo, version, help. To start a program of
such a name: ibrun -- bench

Exit code: 2 wrong use, 124 timeout, 126 not executable, 127 not found, 1 the job could not be wired up; otherwise that of the
rank that failed first, 128+N for signal N.
`)
	return b.String()
}

// spelling is how the flag is typed, under all its names.
func (f flag) spelling() string {
	var names []string
	for _, name := range f.names {
		names = append(names, dashed(name))
	}
	return strings.TrimSpace(strings.Join(names, ", ") + " " + f.arg)
}

// dashed writes a flag's name with as many dashes as people expect.
func dashed(name string) string {
	if len(name) <= 2 {
		return "-" + name
	}
	return "--" + name
}
