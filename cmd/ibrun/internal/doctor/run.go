package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

const usage = `usage: ibrun doctor [--json] [HOST...]             check this machine, and whether these hosts are reachable
       ibrun doctor [--json] --input FILE|DIR      check a machine captured by ibrun topo --capture FILE
       ibrun doctor --bundle [FILE.tar.gz] [HOST...]
                                                   write one file without secrets for a report of a problem, and list
                                                   what it contains; the default name has the host and the time
Exit codes: 0 no problems; 1 warnings; 2 errors, or the machine could not be checked.
`

// exitFailed is the exit code if the machine could not be checked.
const exitFailed = 2

// Main runs `ibrun doctor args...` and returns the exit code. version is the output of ibrun version.
func Main(args, env []string, version string, stdout, stderr io.Writer) int {
	var bundle bundleFlag
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&bundle, "bundle", "")
	asJSON := flags.Bool("json", false, "")
	input := flags.String("input", "", "")
	ports := flags.Bool("ports", false, "") // for ibrun doctor on another host
	err := flags.Parse(joinBundleName(args))
	if errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	switch {
	case err != nil:
	case *input != "" && flags.NArg() > 0:
		err = errors.New("--input checks a captured tree and accepts no hosts")
	case slices.ContainsFunc(flags.Args(), func(host string) bool { return strings.HasPrefix(host, "-") }):
		err = errors.New("flags come before the hosts")
	case bundle.set && (*input != "" || *asJSON):
		err = errors.New("--bundle describes this machine, as an archive; it accepts neither --input nor --json")
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n%s", err, usage)
		return exitFailed
	}
	if *ports {
		return printPorts(env, stdout, stderr)
	}
	if bundle.set {
		return bundle.run(flags.Args(), env, version, stdout, stderr)
	}
	report, err := examine(*input, flags.Args(), env, version)
	if err == nil && *asJSON {
		err = report.JSON(stdout)
	} else if err == nil {
		err = report.Text(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n", err)
		return exitFailed
	}
	return report.ExitCode()
}

// examine reads the machine or a captured tree, probes the hosts, and runs all checks.
func examine(input string, hosts, env []string, version string) (Report, error) {
	if input != "" {
		tree, err := hw.OpenTree(input)
		if err != nil {
			return Report{}, err
		}
		defer tree.Close() // errors do not matter: it was only read
		h, err := capturedHost(tree)
		if err != nil {
			return Report{}, fmt.Errorf("read %s: %w", input, err)
		}
		return RunChecks(h), nil
	}
	h, err := probedHost(hosts, env, version)
	if err != nil {
		return Report{}, err
	}
	return RunChecks(h), nil
}

// probedHost returns this machine with the results of pings and probes.
func probedHost(hosts, env []string, version string) (*Host, error) {
	h, err := localHost(env, version)
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if h.Peers, err = newPeerProber().probeAll(ctx, hosts); err != nil {
		return nil, err
	}
	h.Pings = pingPorts(h.Top.RDMA)
	return h, nil
}

// localHost returns this machine without the results of pings and probes.
func localHost(env []string, version string) (*Host, error) {
	top, err := hw.Local()
	if err != nil {
		return nil, fmt.Errorf("read this machine: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host: %w", err)
	}
	return &Host{Root: os.DirFS("/"), Top: top, Getenv: lookup(env), Name: name, Version: version, Live: true,
		FlowControl: readFlowControl, MTUs: portMTUs(top.RDMA), Networks: portNetworks(top.RDMA)}, nil
}

// printPorts prints the RDMA ports of this machine on one line, for ibrun doctor on another host.
func printPorts(env []string, stdout, stderr io.Writer) int {
	h, err := localHost(env, "")
	if err == nil {
		err = json.NewEncoder(stdout).Encode(h.summaries())
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n", err)
		return exitFailed
	}
	return 0
}

// capturedHost returns the host of a captured tree.
func capturedHost(tree fs.FS) (*Host, error) {
	top, err := hw.Read(tree)
	if err != nil {
		return nil, err
	}
	h := &Host{Root: tree, Top: top, Getenv: func(string) string { return "" }}
	if name, err := h.readText("proc/sys/kernel/hostname"); err == nil {
		h.Name = name
	}
	return h, nil
}

// lookup returns a function like os.Getenv for an environment. The last of several values wins.
func lookup(env []string) func(string) string {
	return func(name string) string {
		for i := len(env) - 1; i >= 0; i-- {
			if len(env[i]) > len(name) && env[i][:len(name)] == name && env[i][len(name)] == '=' {
				return env[i][len(name)+1:]
			}
		}
		return ""
	}
}
