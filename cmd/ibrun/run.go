package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/benchcmd"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/completion"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/explain"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/softroce"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/topo"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/buildinfo"
	"github.com/ibrun/ibrun/internal/printable"
)

// Exit codes of commands.
const (
	exitFailed     = 1
	exitUsageError = 2
	exitNotFound   = 127 // as for a program
)

// command runs a subcommand with the arguments after its name and returns the exit code. What it writes to out is on s.Out, and
// what it writes to errs on s.Err, both without control characters.
type command func(args, env []string, s launch.Streams, out, errs io.Writer) int

// checkedOutput remembers the first error of a write, so that every command fails whose output is lost.
type checkedOutput struct {
	io.Writer
	err error
}

func (o *checkedOutput) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// run runs the command. If it succeeds, but its output is lost, run reports that and returns another exit code.
func (c command) run(args, env []string, s launch.Streams) int {
	checked := &checkedOutput{Writer: s.Out}
	out, errs := printable.NewWriter(checked), printable.NewWriter(s.Err)
	code := c(args, env, s, out, errs)
	_ = out.Flush() // checked has the error
	if code == 0 && checked.err != nil {
		fmt.Fprintf(errs, "ibrun: %v\n", checked.err)
		code = exitFailed
	}
	_ = errs.Flush() // there is no other stream to report an error on
	return code
}

// commands returns the subcommands by name. Any other first argument is a flag or a program. The user's commands are described by
// pages.
func commands() map[string]command {
	return map[string]command{
		"bench": runBench,
		"completion": func(args, env []string, _ launch.Streams, out, errs io.Writer) int {
			return completion.Main(args, env, commandPages(), out, errs)
		},
		"doctor": runDoctor,
		"explain": func(args, _ []string, _ launch.Streams, out, errs io.Writer) int {
			return explain.Main(args, out, errs)
		},
		"hang": inspectCommand("hang"),
		"help": printHelp,
		"man": func(args, _ []string, s launch.Streams, out, errs io.Writer) int {
			from := manual.Source{Version: buildinfo.Version(), Date: buildinfo.Date()}
			return manual.Main(args, from, pages(), s.Out, out, errs)
		},
		"ps":        inspectCommand("ps"),
		"secret":    makeSecret,
		"soft-roce": runSoftRoCE,
		"top":       inspectCommand("top"),
		"topo":      func(args, _ []string, _ launch.Streams, out, errs io.Writer) int { return topo.Main(args, out, errs) },
		"version":   printVersion,
		"agent":     func(_, _ []string, _ launch.Streams, _, errs io.Writer) int { return launch.Agent(errs) },
		"debugger": func(args, _ []string, _ launch.Streams, _, errs io.Writer) int {
			return launch.ServeDebugger(args, errs)
		},
		"node":  func(_, _ []string, s launch.Streams, out, _ io.Writer) int { return launch.Node(s, out) },
		"watch": func(_, _ []string, _ launch.Streams, _, errs io.Writer) int { return launch.Watch(errs) },
	}
}

// pages returns the descriptions of ibrun and of all commands of the user. The first is that of ibrun itself.
func pages() []manual.Page {
	all := slices.Concat([]manual.Page{inspect.Page("ps"), inspect.Page("top"), inspect.Page("hang")}, benchcmd.Pages(),
		[]manual.Page{doctor.Page(), topo.Page(), explain.Page(), softroce.Page(), secretPage(), completion.Page(), manual.ManPage(),
			{Name: "version", Summary: "print the version, the commit, the Go version and the platform of this ibrun",
				Forms: []string{"version"}},
			{Name: "help", Summary: "print the help of ibrun or of a command", Forms: []string{"help [COMMAND]"}}})
	var entries []manual.Entry
	for _, p := range all {
		if !strings.Contains(p.Name, " ") { // bench has commands below it
			entries = append(entries, manual.Entry{Term: p.Name, Text: p.Summary})
		}
	}
	return append([]manual.Page{cli.Page(entries)}, all...)
}

// commandPages returns the descriptions of the subcommands.
func commandPages() []manual.Page {
	return slices.DeleteFunc(pages(), func(p manual.Page) bool { return p.Name == "" || strings.Contains(p.Name, " ") })
}

// pageOf returns the description of a command.
func pageOf(name string) *manual.Page {
	all := pages()
	return &all[slices.IndexFunc(all, func(p manual.Page) bool { return p.Name == name })]
}

// internalCommand reports whether only ibrun itself uses a command.
func internalCommand(name string) bool {
	return slices.Contains([]string{"agent", "debugger", "node", "watch"}, name)
}

// run runs ibrun with these arguments and this environment, and returns the exit code.
func run(args, env []string, s launch.Streams) int {
	if len(args) > 0 {
		if c, ok := commands()[args[0]]; ok && !(args[0] == "node" && len(args) > 1) { // Node.js is also called node
			return c.run(args[1:], env, s)
		}
	}
	o, err := cli.Parse(args, cli.LookupEnv(env))
	if o.LogJSON {
		s = s.WithJSON()
	}
	if hint := wordHint(args); hint != "" {
		return refuse(s, exitNotFound, fmt.Sprintf("there is neither a command nor a program %s: %s", args[0], hint))
	}
	if errors.Is(err, cli.ErrHelp) {
		return command(printHelp).run(nil, nil, s)
	}
	if errors.Is(err, cli.ErrVersion) {
		return command(printVersion).run(nil, nil, s)
	}
	if err != nil {
		return refuse(s, exitUsageError, fmt.Sprintf("%v\nRun ibrun help for the list of flags.", err))
	}
	words, err := cli.Translate(args) // other nodes do not have the files that list programs
	if err != nil {
		return refuse(s, exitUsageError, err.Error())
	}
	return launch.Run(o, words, env, s)
}

// refuse prints why the command line cannot be executed, and returns the exit code.
func refuse(s launch.Streams, code int, why string) int {
	if s.JSON() {
		s.Error("the command line cannot be executed", launch.Attrs{ExitCode: &code, Error: why})
	} else {
		s.Print("ibrun: " + why + "\n")
	}
	return code
}

// wordHint returns what the user may mean by a first word that is not a program, or an empty string.
func wordHint(args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	if _, err := exec.LookPath(args[0]); err == nil {
		return ""
	}
	if _, err := os.Lstat(args[0]); err == nil || strings.Contains(args[0], "/") {
		return "" // a directory or a file: its path is missing
	}
	var names []string
	for _, p := range commandPages() {
		names = append(names, p.Name)
	}
	return cli.CommandHint(args[0], names)
}

func runBench(args, env []string, s launch.Streams, out, errs io.Writer) int {
	return benchcmd.Main(args, env, s, out, errs, func(words []string) int { return run(words, env, s) })
}

// inspectCommand returns one of the commands that show running jobs.
func inspectCommand(name string) command {
	return func(args, _ []string, s launch.Streams, out, errs io.Writer) int {
		return inspect.Main(name, args, s.In, s.Out, out, errs)
	}
}

func runSoftRoCE(args, _ []string, _ launch.Streams, out, errs io.Writer) int {
	return softroce.Main(args, out, errs)
}

func runDoctor(args, env []string, _ launch.Streams, out, errs io.Writer) int {
	return doctor.Main(args, env, buildinfo.Line(), out, errs)
}

// printHelp prints the help of ibrun, of a command, of a flag of ibrun, or of a topic. With bench it accepts an operation: help
// bench latency.
func printHelp(args, env []string, s launch.Streams, out, errs io.Writer) int {
	if len(args) == 0 || manual.IsHelp(args) {
		fmt.Fprint(out, pageOf("").Help())
		return 0
	}
	c, ok := commands()[args[0]]
	if !ok || internalCommand(args[0]) || len(args) > 1 && args[0] != "bench" {
		if text := pageOf("").HelpOn(args); text != "" {
			fmt.Fprint(out, text)
			return 0
		}
		fmt.Fprintf(errs, "ibrun: no help for %q; ibrun help lists commands, flags and topics\n", strings.Join(args, " "))
		return exitUsageError
	}
	return c(append(slices.Clone(args[1:]), "--help"), env, s, out, errs)
}

func secretPage() manual.Page {
	return manual.Page{Name: "secret", Summary: "make a secret file, by which the nodes of a job authenticate each other",
		Forms: []string{"secret FILE"},
		About: []string{"Copy the file to all nodes, and give its name to each ibrun by --secret-file."}}
}

// makeSecret makes a secret file. It prints one line, so that scripts see only errors on stderr.
func makeSecret(args, _ []string, _ launch.Streams, out, errs io.Writer) int {
	page := secretPage()
	switch {
	case manual.IsHelp(args):
		fmt.Fprint(out, page.Help())
		return 0
	case len(args) != 1 || args[0] == "" || args[0][0] == '-':
		fmt.Fprintf(errs, "ibrun secret: want the name of one file\n%s", page.Usage())
		return exitUsageError
	}
	if err := auth.WriteSecret(args[0]); err != nil {
		fmt.Fprintf(errs, "ibrun secret: %v\n", err)
		return exitFailed
	}
	fmt.Fprintf(out, "%s has a new secret; copy it to all nodes, and keep its mode 0600\n", args[0])
	return 0
}

func printVersion(args, _ []string, _ launch.Streams, out, _ io.Writer) int {
	if manual.IsHelp(args) {
		fmt.Fprint(out, pageOf("version").Help())
		return 0
	}
	fmt.Fprintln(out, buildinfo.Line())
	return 0
}
