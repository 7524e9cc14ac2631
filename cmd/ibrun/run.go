package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/benchcmd"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/explain"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/softroce"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/topo"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// usageError is the exit code for an invalid command line.
const usageError = 2

// command is a subcommand. It gets the arguments after its name and returns the exit code.
type command func(args, env []string, s launch.Streams) int

// commands returns the subcommands by name. Any other first argument is a program to start.
func commands() map[string]command {
	return map[string]command{
		"bench":     bench,
		"doctor":    examine,
		"explain":   func(args, _ []string, s launch.Streams) int { return explain.Main(args, s.Out, s.Err) },
		"hang":      inspectJobs("hang"),
		"help":      help,
		"ps":        inspectJobs("ps"),
		"soft-roce": softRoCE,
		"top":       inspectJobs("top"),
		"topo":      func(args, _ []string, s launch.Streams) int { return topo.Main(args, s.Out, s.Err) },
		"version":   version,
		"agent":     func([]string, []string, launch.Streams) int { return launch.Agent() },
	}
}

// run executes a command line and returns the exit code.
func run(args, env []string, s launch.Streams) int {
	if len(args) > 0 {
		if c, ok := commands()[args[0]]; ok {
			return c(args[1:], env, s)
		}
	}
	o, err := cli.Parse(args, cli.Lookup(env))
	if errors.Is(err, cli.ErrHelp) {
		return help(nil, nil, s)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "ibrun: %v\nibrun help lists the flags\n", err)
		return usageError
	}
	return launch.Run(o, env, s)
}

func bench(args, env []string, s launch.Streams) int {
	return benchcmd.Main(args, env, s, func(words []string) int { return run(words, env, s) })
}

// inspectJobs returns one of the commands about running jobs.
func inspectJobs(name string) command {
	return func(args, _ []string, s launch.Streams) int { return inspect.Main(name, args, s.Out, s.Err) }
}

func softRoCE(args, _ []string, s launch.Streams) int { return softroce.Main(args, s.Out, s.Err) }

func examine(args, env []string, s launch.Streams) int {
	return doctor.Main(args, env, buildinfo.Line(), s.Out, s.Err)
}

// help prints the usage of ibrun or of a command, for bench also that of an operation: help bench latency.
func help(args, env []string, s launch.Streams) int {
	if len(args) == 0 || asksHelp(args[0]) {
		fmt.Fprint(s.Out, cli.Usage())
		return 0
	}
	c, ok := commands()[args[0]]
	if !ok || len(args) > 1 && args[0] != "bench" {
		fmt.Fprintf(s.Err, "ibrun: no help on %q: ibrun help lists the commands\n", strings.Join(args, " "))
		return usageError
	}
	return c(append(slices.Clone(args[1:]), "--help"), env, s)
}

func asksHelp(word string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, word)
}

func version(args, _ []string, s launch.Streams) int {
	if len(args) > 0 && asksHelp(args[0]) {
		fmt.Fprintln(s.Out,
			"usage: ibrun version   print the version, the commit, the version of Go, and the platform of this ibrun")
		return 0
	}
	fmt.Fprintln(s.Out, buildinfo.Line())
	return 0
}
