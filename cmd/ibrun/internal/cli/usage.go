package cli

import (
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
)

// Page returns the description of ibrun itself. commands are its other commands.
func Page(commands []manual.Entry) manual.Page {
	page := manual.Page{
		Summary: "start the ranks of a parallel program",
		Forms:   []string{"[FLAG...] PROGRAM [ARGUMENT...] [: [FLAG...] PROGRAM [ARGUMENT...]]...", "COMMAND [ARGUMENT...]"},
		About: []string{
			"PROGRAM is any program, or a Go package directory or .go file, which ibrun builds first. Rank 0 reads standard input: " +
				"ibrun -n 4 ./app",
			`To start a program with the name of a command, write -- before it: ibrun -- bench. "ibrun help COMMAND" shows the flags ` +
				`of a command, "ibrun man COMMAND" its manual page. "ibrun help FLAG" and "ibrun help TOPIC" show a part of this help: ` +
				`ibrun help bind-to, ibrun help exit codes.`,
		},
		Commands: commands,
		Topics: []manual.Topic{
			{Title: "More about flags", Text: []string{
				"Flags have one or two dashes. Each can also be set by an environment variable, IBRUN_ and its name (--dry-run: " +
					`IBRUN_DRY_RUN=1); the command line wins. After the first ":" only -n, --wdir and -x are allowed.`,
				"Flags of mpirun, mpiexec, srun and torchrun work, or are errors that say what to write (docs/migrating.md).",
			}},
			{Title: "Signals", Text: []string{
				"SIGINT, SIGTERM and SIGHUP are forwarded to all ranks, which have --grace to end before SIGKILL. A second one to the " +
					"same ibrun kills them at once; the same signal at several nodes of a job counts as one. After --timeout ranks get " +
					"SIGTERM and --grace, and after the failure of a rank SIGTERM and --failure-grace.",
				"SIGQUIT, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP and SIGCONT are only forwarded. SIGUSR1 makes ibrun print what the ranks " +
					"of its job wait for.",
			}},
			{Title: "Exit codes", Entries: []manual.Entry{
				{Term: "0", Text: "all ranks have succeeded"},
				{Term: "N", Text: "the code of the first rank that failed; 128+N if signal N killed it"},
				{Term: "128+N", Text: "signal N was sent to ibrun, and ranks had to be killed or output was lost"},
				{Term: "1", Text: "the ranks could not be connected, or a node is lost"},
				{Term: "2", Text: "usage error"},
				{Term: "124", Text: "--timeout"},
				{Term: "126", Text: "the program is not executable"},
				{Term: "127", Text: "the program was not found"},
			}},
		},
	}
	for _, g := range append([]flagGroup{{"Programs", new(Program).flags(nil)}}, new(Options).flagGroups()...) {
		group := manual.Group{Title: g.title}
		for _, f := range g.flags {
			if f.help != "" {
				group.Flags = append(group.Flags, manual.Flag{Names: f.names, Arg: f.arg, Help: strings.ReplaceAll(f.help, "\n", " ")})
			}
		}
		page.Groups = append(page.Groups, group)
	}
	return page
}
