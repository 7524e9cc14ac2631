package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// Exit codes where there is none of a program in the guest.
const (
	codeTests   = 1 // of go test, when tests fail or cannot be built
	codeUse     = 2
	codeTimeout = 124
	codeFailed  = 125
	codeSignal  = 128 // and the number of the signal
)

// options are the command line.
type options struct {
	nodes   int
	netem   string
	timeout time.Duration
	verbose bool
	command []string
}

// defaultTimeout ends a run of which nobody said how long it may take.
const defaultTimeout = time.Hour

// parse reads the command line. It has told the user about every error that it returns.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, "usage: vm [-nodes 1|2] [-netem 'loss 5%'] [-timeout D] [-v] -- COMMAND [ARGUMENT...]\n"+
			"Runs COMMAND in a virtual machine with the Soft-RoCE device rxe0. `go test` is built here and run there.\n"+
			"Within it, `vm exec 1 COMMAND...` runs something on the other node.\n\n")
		f.PrintDefaults()
	}
	f.IntVar(&o.nodes, "nodes", 1, "start `N` machines on one wire: 1 or 2")
	f.StringVar(&o.netem, "netem", "", "spoil the wire: `WORDS` as tc-netem(8) has them; needs -nodes 2")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "end all after this `TIME`, with exit code 124")
	f.BoolVar(&o.verbose, "v", false, "say on stderr what is done and how long it takes")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.command = f.Args()
	var err error
	switch {
	case len(o.command) == 0:
		err = errors.New("no command to run; `vm -- ibv_devinfo` shows the device")
	case o.nodes != 1 && o.nodes != 2:
		err = fmt.Errorf("-nodes %d: there is one node, or there are two", o.nodes)
	case o.netem != "" && o.nodes == 1:
		err = errors.New("-netem needs -nodes 2: what a node sends to itself never comes near the wire")
	case o.netem != "" && len(strings.Fields(o.netem)) == 0:
		err = errors.New("-netem is empty")
	case o.timeout <= 0:
		err = fmt.Errorf("-timeout %v leaves no time", o.timeout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "vm: %v\n`vm -help` lists the flags\n", err)
	}
	return o, err
}
