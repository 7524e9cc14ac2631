package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/benchcmd"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/completion"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/explain"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/softroce"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/topo"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// Exit codes of commands.
const (
	exitFailed     = 1
	exitUsageError = 2
)

// command runs a subcommand with the arguments after its name and returns the exit code. What it writes to out is on s.Out.
type command func(args, env []string, s launch.Streams, out io.Writer) int

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
	out := &checkedOutput{Writer: s.Out}
	code := c(args, env, s, out)
	if code == 0 && out.err != nil {
		fmt.Fprintf(s.Err, "ibrun: %v\n", out.err)
		return exitFailed
	}
	return code
}

// commands returns the subcommands by name. Any other first argument is a flag or a program. The user's commands are listed in
// the help, see cli.Usage.
func commands() map[string]command {
	return map[string]command{
		"bench": runBench,
		"completion": func(args, env []string, s launch.Streams, out io.Writer) int {
			return completion.Main(args, env, userCommands(), out, s.Err)
		},
		"doctor":    runDoctor,
		"explain":   func(args, _ []string, s launch.Streams, out io.Writer) int { return explain.Main(args, out, s.Err) },
		"hang":      inspectCommand("hang"),
		"help":      printHelp,
		"ps":        inspectCommand("ps"),
		"secret":    makeSecret,
		"soft-roce": runSoftRoCE,
		"top":       inspectCommand("top"),
		"topo":      func(args, _ []string, s launch.Streams, out io.Writer) int { return topo.Main(args, out, s.Err) },
		"version":   printVersion,
		"agent":     func([]string, []string, launch.Streams, io.Writer) int { return launch.Agent() },
		"debugger":  func(args, _ []string, _ launch.Streams, _ io.Writer) int { return launch.ServeDebugger(args) },
		"node":      func(_, _ []string, s launch.Streams, _ io.Writer) int { return launch.Node(s) },
		"watch":     func([]string, []string, launch.Streams, io.Writer) int { return launch.Watch() },
	}
}

// internalCommand reports whether only ibrun itself uses a command.
func internalCommand(name string) bool {
	return slices.Contains([]string{"agent", "debugger", "node", "watch"}, name)
}

// userCommands returns the names of the other commands.
func userCommands() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(commands())), internalCommand)
}

// run runs ibrun with these arguments and this environment, and returns the exit code.
func run(args, env []string, s launch.Streams) int {
	if len(args) > 0 {
		if c, ok := commands()[args[0]]; ok && !(args[0] == "node" && len(args) > 1) { // Node.js is also called node
			return c.run(args[1:], env, s)
		}
	}
	o, err := cli.Parse(args, cli.Lookup(env))
	if errors.Is(err, cli.ErrHelp) {
		return command(printHelp).run(nil, nil, s)
	}
	if errors.Is(err, cli.ErrVersion) {
		return command(printVersion).run(nil, nil, s)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "ibrun: %v\nRun ibrun help for the list of flags.\n", err)
		return exitUsageError
	}
	words, err := cli.Translate(args) // other nodes do not have the files that list programs
	if err != nil {
		fmt.Fprintf(s.Err, "ibrun: %v\n", err)
		return exitUsageError
	}
	return launch.Run(o, words, env, s)
}

func runBench(args, env []string, s launch.Streams, _ io.Writer) int {
	return benchcmd.Main(args, env, s, func(words []string) int { return run(words, env, s) })
}

// inspectCommand returns one of the commands that show running jobs.
func inspectCommand(name string) command {
	return func(args, _ []string, s launch.Streams, _ io.Writer) int {
		return inspect.Main(name, args, s.Out, s.Err)
	}
}

func runSoftRoCE(args, _ []string, s launch.Streams, out io.Writer) int {
	return softroce.Main(args, out, s.Err)
}

func runDoctor(args, env []string, s launch.Streams, out io.Writer) int {
	return doctor.Main(args, env, buildinfo.Line(), out, s.Err)
}

// printHelp prints the usage of ibrun or of a command. With bench it accepts an operation: help bench latency.
func printHelp(args, env []string, s launch.Streams, out io.Writer) int {
	if len(args) == 0 || isHelpWord(args[0]) {
		fmt.Fprint(out, cli.Usage())
		return 0
	}
	c, ok := commands()[args[0]]
	if !ok || len(args) > 1 && args[0] != "bench" {
		fmt.Fprintf(s.Err, "ibrun: no help for %q; ibrun help lists the commands\n", strings.Join(args, " "))
		return exitUsageError
	}
	return c(append(slices.Clone(args[1:]), "--help"), env, s, out)
}

func isHelpWord(word string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, word)
}

// makeSecret makes a secret file. It prints one line, so that scripts see only errors on stderr.
func makeSecret(args, _ []string, s launch.Streams, out io.Writer) int {
	const usage = "usage: ibrun secret FILE   make a file with a random secret, for --secret-file on all nodes of a job\n"
	switch {
	case len(args) > 0 && isHelpWord(args[0]):
		fmt.Fprint(out, usage)
		return 0
	case len(args) != 1 || args[0] == "" || args[0][0] == '-':
		fmt.Fprintf(s.Err, "ibrun secret: want the name of one file\n%s", usage)
		return exitUsageError
	}
	if err := auth.WriteSecret(args[0]); err != nil {
		fmt.Fprintf(s.Err, "ibrun secret: %v\n", err)
		return exitFailed
	}
	fmt.Fprintf(out, "%s has a new secret; copy it to all nodes, and keep its mode 0600\n", args[0])
	return 0
}

func printVersion(args, _ []string, _ launch.Streams, out io.Writer) int {
	if len(args) > 0 && isHelpWord(args[0]) {
		fmt.Fprintln(out, "usage: ibrun version   print the version, the commit, the Go version and the platform of this ibrun")
		return 0
	}
	fmt.Fprintln(out, buildinfo.Line())
	return 0
}
