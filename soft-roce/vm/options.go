package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// Exit codes of vm itself. Otherwise the exit code is that of the program in the guest.
const (
	codeTests   = 1 // of go test, when tests fail or cannot be built
	codeUse     = 2
	codeTimeout = 124
	codeFailed  = 125
	codeSignal  = 128 // and the number of the signal
)

// options are the parsed command line.
type options struct {
	nodes   int
	netem   string
	timeout time.Duration
	verbose bool
	command []string
}

// defaultTimeout is the default of -timeout.
const defaultTimeout = time.Hour

// parse parses the command line. It prints every error that it returns to stderr.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: vm [-nodes 1|2] [-netem 'loss 5%'] [-timeout D] [-v] -- COMMAND [ARGUMENT...]\n"+
			"Runs COMMAND in a virtual machine with the Soft-RoCE device rxe0. `go test` is built here and run there.\n"+
			"In the guest, `vm exec 1 COMMAND...` runs a command on the other node.\n\n")
		f.PrintDefaults()
	}
	f.IntVar(&o.nodes, "nodes", 1, "start `N` machines on one wire: 1 or 2")
	f.StringVar(&o.netem, "netem", "", "disturb the network: `PARAMETERS` of tc-netem(8); needs -nodes 2")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "end everything after this `TIME`, with exit code 124")
	f.BoolVar(&o.verbose, "v", false, "print each step and its time on stderr")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.command = f.Args()
	var err error
	switch {
	case len(o.command) == 0:
		err = errors.New("no command to run; `vm -- ibv_devinfo` shows the device")
	case o.nodes != 1 && o.nodes != 2:
		err = fmt.Errorf("-nodes %d: must be 1 or 2", o.nodes)
	case o.netem != "" && o.nodes == 1:
		err = errors.New("-netem needs -nodes 2: packets that a node sends to itself do not pass through the network device")
	case o.netem != "" && len(strings.Fields(o.netem)) == 0:
		err = errors.New("-netem is empty")
	case o.timeout <= 0:
		err = fmt.Errorf("-timeout %v: must be positive", o.timeout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "vm: %v\n`vm -help` lists the flags\n", err)
	}
	return o, err
}
