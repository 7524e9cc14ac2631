package topo

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/cgroup"
	"github.com/ibrun/ibrun/internal/printable"
)

// Page returns the description of the command.
func Page() manual.Page {
	page := manual.Page{Name: "topo", Summary: "show the topology of this node, and where ranks would run",
		Forms: []string{"topo [--json | --svg FILE] [--input FILE|DIR] [-n N] [FLAG...]", "topo --capture FILE"},
		About: []string{"With -n or a placement flag it shows where the ranks of a job would run."}}
	placing := manual.Group{Title: "Placement flags"}
	for _, f := range placement.Flags() {
		if f.Help != "" {
			placing.Flags = append(placing.Flags, manual.Flag{Names: f.Names[:1], Arg: f.Arg, Help: f.Help})
		}
	}
	page.Groups = []manual.Group{{Title: "Flags", Flags: manual.Flags(new(options).flags())}, placing}
	return page
}

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// options is the parsed command line.
type options struct {
	json                bool
	svg, input, capture string
	ranks               int
	showRanks           bool // a placement flag was given
	policy              placement.Policy
}

// Main is `ibrun topo args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := options{}.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp) || manual.IsHelp(args):
		page := Page()
		fmt.Fprint(stdout, page.Help())
		return 0
	case err != nil:
		page := Page()
		fmt.Fprintf(stderr, "ibrun topo: %v\n%s", err, page.Usage())
		return exitUsage
	}
	if err := o.run(stdout); err != nil {
		fmt.Fprintf(stderr, "ibrun topo: %v\n", err)
		return exitFailed
	}
	return 0
}

// flags returns the flags of the command.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("topo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", false, "print the node as JSON")
	flags.StringVar(&o.svg, "svg", "", "draw it to `FILE`")
	flags.StringVar(&o.input, "input", "", "show the machine that ibrun topo --capture has written to this `FILE|DIR`")
	flags.StringVar(&o.capture, "capture", "", "write a description of this node to `FILE`")
	for _, name := range []string{"n", "np"} {
		flags.IntVar(&o.ranks, name, 0, "show `N` ranks")
	}
	for _, f := range placement.Flags() {
		for _, name := range f.Names {
			set := func(value string) error {
				o.showRanks = true
				return f.Set(&o.policy, value)
			}
			if f.Arg == "" {
				flags.BoolFunc(name, "", set)
			} else {
				flags.Func(name, "", set)
			}
		}
	}
	for name, why := range placement.AmbiguousFlags() {
		flags.Func(name, "", func(string) error { return errors.New(why) })
	}
	return flags
}

func (o options) parse(args []string) (options, error) {
	flags := o.flags()
	err := flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.ranks < 0 || o.ranks > maxRanks:
		err = fmt.Errorf("-n must be from 1 to %d", maxRanks)
	case o.json && o.svg != "" || o.capture != "" && (o.json || o.svg != "" || o.input != "" || o.showRanks || o.ranks > 0):
		err = errors.New("choose one of --json, --svg and --capture; --capture accepts no other flags")
	case o.json && (o.showRanks || o.ranks > 0):
		err = errors.New("--json shows the node without ranks: it accepts neither -n nor placement flags")
	}
	return o, err
}

// maxRanks bounds the ranks that are drawn on one node.
const maxRanks = 1 << 16

func (o options) run(stdout io.Writer) error {
	if o.capture != "" {
		return writeFile(o.capture, func(w io.Writer) error { return hw.Capture(w, os.DirFS("/")) })
	}
	name, top, err := o.readMachine()
	if err != nil {
		return err
	}
	top.LookUpModels(os.DirFS("/"))
	if o.json {
		e := json.NewEncoder(printable.NewJSONWriter(stdout))
		e.SetIndent("", "  ")
		return e.Encode(top)
	}
	plan, err := o.plan(name, top)
	if err != nil {
		return err
	}
	picture := machineComponent(name, top, plan)
	if o.svg != "" {
		return writeFile(o.svg, func(w io.Writer) error { return writeSVG(w, picture) })
	}
	_, err = io.WriteString(stdout, renderText(picture, top, plan))
	return err
}

// renderText returns the full text for a terminal. It replaces control characters in the names that the machine reports.
func renderText(picture component, top *hw.Topology, plan *placement.Plan) string {
	var b strings.Builder
	picture.writeText(&b, "")
	for _, p := range top.Problems {
		fmt.Fprintf(&b, "not read: %s\n", p)
	}
	if plan != nil {
		b.WriteString("\n" + plan.Report())
	}
	b.WriteString("\n")
	writeMatrix(&b, top)
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, b.String())
}

// readMachine reads this machine or a captured one, and returns its name and topology.
func (o options) readMachine() (string, *hw.Topology, error) {
	if o.input == "" {
		name, err := os.Hostname()
		if err != nil {
			return "", nil, fmt.Errorf("find the name of this host: %w", err)
		}
		top, err := hw.Local()
		if err != nil {
			return "", nil, fmt.Errorf("read this node: %w", err)
		}
		return name, top, nil
	}
	tree, err := hw.OpenTree(o.input)
	if err != nil {
		return "", nil, err
	}
	defer tree.Close() // it was only read
	top, err := hw.Read(tree)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("not a machine captured by ibrun topo --capture: %w", err)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", o.input, err)
	}
	return o.input, top, nil
}

// plan places the ranks of the requested job. It returns nil if no job was requested.
func (o options) plan(name string, top *hw.Topology) (*placement.Plan, error) {
	if !o.showRanks && o.ranks == 0 {
		return nil, nil
	}
	m := placement.Machine{Name: name, Top: top}
	if o.input == "" {
		m.Quota = cgroup.CPUQuota()
	}
	p := o.policy
	if err := p.ReadFile(); err != nil {
		return nil, err
	}
	ranks := o.ranks
	if ranks == 0 {
		var err error
		if ranks, err = p.Slots(m); err != nil {
			return nil, err
		}
	}
	return placement.NewPlan([]placement.Machine{m}, ranks, p)
}

// writeFile creates a file only after all of its content has been produced.
func writeFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o666)
}
