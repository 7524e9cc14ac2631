package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/ibrun/ibrun/hw"
)

const usage = `usage: ibrun doctor [--json] [HOST...]             look at this machine, and whether these hosts can be reached
       ibrun doctor [--json] --input FILE|DIR      look at what ibrun topo --capture FILE wrote down
The exit code is 0, 1 with warnings, 2 with errors.
`

// exitFailed is the exit code when nothing could be looked at: as bad as an error.
const exitFailed = 2

// Main is `ibrun doctor args...`. Binary is what ibrun version prints. It returns the exit code.
func Main(args, env []string, binary string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	input := flags.String("input", "", "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err == nil && *input != "" && flags.NArg() > 0 {
		err = errors.New("a captured tree cannot be asked for hosts")
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n%s", err, usage)
		return exitFailed
	}
	report, err := look(*input, flags.Args(), env, binary)
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

// look gathers what is to be known, and examines it.
func look(input string, hosts, env []string, binary string) (Report, error) {
	if input != "" {
		tree, err := hw.OpenTree(input)
		if err != nil {
			return Report{}, err
		}
		defer tree.Close() // it was only read
		h, err := captured(tree)
		if err != nil {
			return Report{}, fmt.Errorf("read %s: %w", input, err)
		}
		return Examine(h), nil
	}
	top, err := hw.Local()
	if err != nil {
		return Report{}, fmt.Errorf("read this machine: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return Report{}, fmt.Errorf("find the name of this host: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	peers, err := newAsker().ask(ctx, hosts)
	if err != nil {
		return Report{}, err
	}
	return Examine(&Host{Root: os.DirFS("/"), Top: top, Getenv: lookup(env), Name: name, Binary: binary, Live: true,
		Pings: pingPorts(top.RDMA), Peers: peers}), nil
}

// captured is the host that a tree was captured of.
func captured(tree fs.FS) (*Host, error) {
	top, err := hw.Read(tree)
	if err != nil {
		return nil, err
	}
	h := &Host{Root: tree, Top: top, Getenv: func(string) string { return "" }}
	if name, err := h.text("proc/sys/kernel/hostname"); err == nil {
		h.Name = name
	}
	return h, nil
}

// lookup is os.Getenv for an environment.
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
