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
	groups := append([]group{{"The ranks of a program", new(Program).flags(nil)}}, new(Options).groups()...)
	for _, g := range groups {
		fmt.Fprintf(&b, "%s:\n\n", g.title)
		for _, f := range g.flags {
			if f.help != "" {
				help := strings.ReplaceAll(f.help, "\n", "\n"+strings.Repeat(" ", nameColumn+3))
				fmt.Fprintf(&b, "  %-*s %s\n", nameColumn, f.spelling(), help)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(`Flags of Open MPI, MPICH, Slurm and TACC's ibrun that place ranks are understood under their own names too.
A flag takes one or two dashes and may be given as a variable, --dry-run as IBRUN_DRY_RUN=1, which counts where the flag is not on
the command line. After the first ":" only -n, --wdir and -x are allowed. Other commands, as first word: bench, doctor, explain,
hang, ps, soft-roce, top, topo, version, help. ibrun help COMMAND, or ibrun COMMAND --help, tells more of one. To start a program
of such a name: ibrun -- bench

While a job runs, ibrun ps lists it, ibrun top shows how busy its ranks are, and ibrun hang, or SIGUSR1 to ibrun, what they wait
for.

Exit code: 2 wrong use, 124 timeout, 126 not executable, 127 not found, 1 the job could not be wired up; otherwise that of the
rank that failed first, 128+N for signal N.
`)
	return b.String()
}

// nameColumn is how wide the flags are in the list.
const nameColumn = 26

// spelling is how the flag is typed, under as many of its names as there is room for.
func (f flag) spelling() string {
	var names, arg string
	if f.arg != "" {
		arg = " " + f.arg
	}
	for _, name := range f.names {
		longer := strings.TrimPrefix(names+", "+dashed(name), ", ")
		if names != "" && len(longer+arg) > nameColumn {
			break
		}
		names = longer
	}
	return names + arg
}

// dashed writes a flag's name with as many dashes as people expect.
func dashed(name string) string {
	if len(name) <= 2 {
		return "-" + name
	}
	return "--" + name
}
