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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
)

const usage = `usage: ibrun topo [--json | --svg FILE] [--input FILE|DIR] [-n N] [FLAG...]   show this node, or one that was ` +
	`captured
       ibrun topo --capture FILE                                           write down what this node tells of itself

With -n it shows where the ranks of a job would be. FLAG is one of the flags that place ranks:
`

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// options are the command line.
type options struct {
	json                bool
	svg, input, capture string
	ranks               int
	placed              bool // a flag of placement was given
	policy              placement.Policy
}

// Main is `ibrun topo args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := options{}.read(args)
	switch {
	case errors.Is(err, flag.ErrHelp) || len(args) > 0 && args[0] == "help":
		fmt.Fprint(stdout, usage)
		for _, f := range placement.Flags() {
			if f.Help != "" {
				fmt.Fprintf(stdout, "  --%-24s %s\n", strings.TrimSpace(f.Names[0]+" "+f.Arg), f.Help)
			}
		}
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ibrun topo: %v\n%s", err, usage)
		return exitUsage
	}
	if err := o.run(stdout); err != nil {
		fmt.Fprintf(stderr, "ibrun topo: %v\n", err)
		return exitFailed
	}
	return 0
}

func (o options) read(args []string) (options, error) {
	flags := flag.NewFlagSet("topo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", false, "")
	flags.StringVar(&o.svg, "svg", "", "")
	flags.StringVar(&o.input, "input", "", "")
	flags.StringVar(&o.capture, "capture", "", "")
	for _, name := range []string{"n", "np"} {
		flags.IntVar(&o.ranks, name, 0, "")
	}
	for _, f := range placement.Flags() {
		for _, name := range f.Names {
			set := func(value string) error {
				o.placed = true
				return f.Set(&o.policy, value)
			}
			if f.Arg == "" {
				flags.BoolFunc(name, "", set)
			} else {
				flags.Func(name, "", set)
			}
		}
	}
	for name, why := range placement.Ambiguous() {
		flags.Func(name, "", func(string) error { return errors.New(why) })
	}
	err := flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is too much", flags.Arg(0))
	case o.ranks < 0 || o.ranks > mostRanks:
		err = fmt.Errorf("-n is from 1 to %d", mostRanks)
	case o.json && o.svg != "" || o.capture != "" && (o.json || o.svg != "" || o.input != "" || o.placed || o.ranks > 0):
		err = errors.New("one thing at a time: --json, --svg or --capture")
	case o.json && (o.placed || o.ranks > 0):
		err = errors.New("--json is of the node alone, without ranks")
	}
	return o, err
}

// mostRanks bounds what is drawn of one node.
const mostRanks = 1 << 16

func (o options) run(stdout io.Writer) error {
	if o.capture != "" {
		return writeFile(o.capture, func(w io.Writer) error { return hw.Capture(w, os.DirFS("/")) })
	}
	name, top, err := o.machine()
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(top)
	}
	plan, err := o.plan(name, top)
	if err != nil {
		return err
	}
	picture := machine(name, top, plan)
	if o.svg != "" {
		return writeFile(o.svg, func(w io.Writer) error { return svg(w, picture) })
	}
	_, err = io.WriteString(stdout, show(picture, top, plan))
	return err
}

// show writes all there is for a terminal, which what a machine calls its parts cannot command.
func show(picture box, top *hw.Topology, plan *placement.Plan) string {
	var b strings.Builder
	picture.text(&b, "")
	for _, p := range top.Problems {
		fmt.Fprintf(&b, "not read: %s\n", p)
	}
	if plan != nil {
		b.WriteString("\n" + plan.Report())
	}
	b.WriteString("\n")
	matrix(&b, top)
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, b.String())
}

// machine reads this machine, or a captured one, and its name.
func (o options) machine() (string, *hw.Topology, error) {
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
		err = fmt.Errorf("it is no tree of a machine, as ibrun topo --capture writes one: %w", err)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", o.input, err)
	}
	return o.input, top, nil
}

// plan places the ranks of the job that was asked for, nil for none.
func (o options) plan(name string, top *hw.Topology) (*placement.Plan, error) {
	if !o.placed && o.ranks == 0 {
		return nil, nil
	}
	m := placement.Machine{Name: name, Top: top}
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
	return placement.Place([]placement.Machine{m}, ranks, p)
}

// writeFile writes a file once all of it is known.
func writeFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o666)
}
