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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/mpi/explain"
)

// Page returns the description of the command.
func Page() manual.Page {
	return manual.Page{Name: "doctor", Summary: "find problems of this machine and its network",
		Forms: []string{"doctor [--all | --json] [HOST...]",
			"doctor [--all | --json] --input FILE|DIR", "doctor --bundle [FILE.tar.gz] [HOST...]"},
		About: []string{"It checks this machine, and whether the hosts are reachable and have the same ibrun. The first line is the " +
			"verdict. Each finding says why it matters, and which command fixes it."},
		Groups: []manual.Group{{Title: "Flags", Flags: manual.Flags(new(options).flags())}},
		Topics: []manual.Topic{{Title: "Exit codes", Entries: []manual.Entry{
			{Term: "0", Text: "jobs work, also if RDMA does not"}, {Term: "1", Text: "jobs cannot work"},
			{Term: "2", Text: "usage error, or the machine could not be checked"}}}},
	}
}

// exitFailed is the exit code if the machine could not be checked.
const exitFailed = 2

// options are the flags of the command.
type options struct {
	bundle      bundleFlag
	json, ports bool
	all         bool // print all findings
	input       string
}

// flags returns the flags of the command.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&o.bundle, "bundle", "write one file without secrets for a report of a problem, and list what it contains; the "+
		"default name has the host and the time")
	flags.BoolVar(&o.all, "all", false, "print also what is fine, unknown or does not apply")
	flags.BoolVar(&o.json, "json", false, "print the findings as JSON")
	flags.StringVar(&o.input, "input", "", "check the machine that ibrun topo --capture has written to this `FILE|DIR`")
	flags.BoolVar(&o.ports, "ports", false, "") // for ibrun doctor on another host
	return flags
}

// Main runs `ibrun doctor args...` and returns the exit code. version is the output of ibrun version.
func Main(args, env []string, version string, stdout, stderr io.Writer) int {
	var o options
	flags := o.flags()
	err := flags.Parse(joinBundleName(args))
	page := Page()
	if errors.Is(err, flag.ErrHelp) || manual.IsHelp(args) {
		fmt.Fprint(stdout, page.Help())
		return 0
	}
	switch {
	case err != nil:
	case o.input != "" && flags.NArg() > 0:
		err = errors.New("--input checks a captured tree and accepts no hosts")
	case slices.ContainsFunc(flags.Args(), func(host string) bool { return strings.HasPrefix(host, "-") }):
		err = errors.New("flags come before the hosts")
	case o.bundle.set && (o.input != "" || o.json):
		err = errors.New("--bundle describes this machine, as an archive; it accepts neither --input nor --json")
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n%s", err, page.Usage())
		return exitFailed
	}
	if o.ports {
		return printPorts(env, stdout, stderr)
	}
	if o.bundle.set {
		return o.bundle.run(flags.Args(), env, version, stdout, stderr)
	}
	report, err := examine(o.input, flags.Args(), env, version)
	if err == nil && o.json {
		err = report.JSON(stdout)
	} else if err == nil {
		err = report.Text(stdout, o.all)
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
	unused, errInterfaces := explain.UnusedInterfaces(lookup(env))
	return &Host{Root: os.DirFS("/"), Top: top, Getenv: lookup(env), Name: name, Version: version, Live: true,
		FlowControl: readFlowControl, MTUs: portMTUs(top.RDMA), Networks: portNetworks(top.RDMA), Refused: refusedPorts(env),
		UnusedInterfaces: unused, InterfacesErr: errInterfaces}, nil
}

// refusedPorts opens the RDMA ports as a job does, and returns why it cannot use them, nil for those that it can use. An invalid
// setting is reported by another check.
func refusedPorts(env []string) map[string]error {
	ports, _ := explain.Ports(lookup(env))
	refused := map[string]error{}
	for _, p := range ports {
		name := p.Device
		if p.Port > 0 {
			name += fmt.Sprintf("/%d", p.Port)
		}
		refused[name] = p.Err
	}
	return refused
}

// printPorts prints the RDMA ports of this machine on one line, for ibrun doctor on another host.
func printPorts(env []string, stdout, stderr io.Writer) int {
	h, err := localHost(env, "")
	if err == nil {
		err = json.NewEncoder(printable.NewJSONWriter(stdout)).Encode(h.summaries())
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
