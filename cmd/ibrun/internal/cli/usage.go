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

PROGRAM is any program, or a Go package directory or .go file, which ibrun builds first. Rank 0 reads standard input.

`)
	groups := append([]flagGroup{{"Programs", new(Program).flags(nil)}}, new(Options).flagGroups()...)
	for _, g := range groups {
		fmt.Fprintf(&b, "%s:\n\n", g.title)
		for _, f := range g.flags {
			if f.help != "" {
				help := strings.ReplaceAll(f.help, "\n", "\n"+strings.Repeat(" ", nameColumn+3))
				fmt.Fprintf(&b, "  %-*s %s\n", nameColumn, f.synopsis(), help)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(`Flags of mpirun, mpiexec, srun and torchrun work, or are errors that say what to write (docs/migrating.md).
Flags may have one or two dashes. Every flag can also be set by an environment variable (--dry-run: IBRUN_DRY_RUN=1); the
command line wins. After the first ":" only -n, --wdir and -x are allowed.

Other commands (ibrun help COMMAND shows how each is used):

  ps, top, hang              list running jobs; show how busy their ranks are; show what they wait for
  bench                      measure latency and bandwidth, also in comparison with other MPI implementations
  doctor                     find problems of this machine and its network
  completion                 print the script by which bash, zsh or fish completes command lines
  explain                    show how messages of a size travel, which algorithm a collective uses, and why
  topo                       show the topology of this node, and where ranks would run
  secret                     make a secret file, by which the nodes of a job authenticate each other
  soft-roce                  create and remove software RDMA devices
  version, help              print the version; print this help

To start a program with the name of a command, write -- before it: ibrun -- bench

Signals: SIGINT, SIGTERM and SIGHUP are forwarded to all ranks, which have --grace to end before SIGKILL. A second one to the
same ibrun kills them at once; the same signal at several nodes of a job counts as one. After --timeout ranks get SIGTERM and
--grace, and after the failure of a rank SIGTERM and --failure-grace. SIGQUIT, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP and SIGCONT
are only forwarded. SIGUSR1 makes ibrun print what the ranks of its job wait for.

Exit codes: 0 success; the code of the first rank that failed (128+N for signal N); 1 the ranks could not be connected;
2 usage error; 124 timeout; 126 not executable; 127 not found.
`)
	return b.String()
}

// nameColumn is the width of the flag column in the help.
const nameColumn = 26

// synopsis returns the flag as the help shows it, with as many of its names as fit into the column.
func (f flag) synopsis() string {
	var names, arg string
	if f.arg != "" {
		arg = " " + f.arg
	}
	for _, name := range f.names {
		longer := strings.TrimPrefix(names+", "+withDashes(name), ", ")
		if names != "" && len(longer+arg) > nameColumn {
			break
		}
		names = longer
	}
	return names + arg
}

// withDashes returns a flag's name with its usual number of dashes.
func withDashes(name string) string {
	if len(name) <= 2 {
		return "-" + name
	}
	return "--" + name
}
