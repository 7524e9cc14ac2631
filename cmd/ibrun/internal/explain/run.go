package explain

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi/explain"
)

var usage = `usage: ibrun explain SIZE[,SIZE...] [--transport LIST] [--json]

It prints how messages of these sizes, such as 8,64K,1M, travel over each transport, and why, and all settings in force.
A range such as 1K-8K selects the powers of 2 in it.

  --transport LIST   show only the listed transports, of ` + strings.Join(transports.SelectableNames(), ", ") + `
  --json             print one JSON array
`

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// maxSizes bounds the number of sizes that are printed.
const maxSizes = 1000

// options is the parsed command line.
type options struct {
	sizes     []int
	transport string
	json      bool
}

// Main is `ibrun explain args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ibrun explain: %v\n%s", err, usage)
		return exitUsage
	}
	if err := o.run(stdout); err != nil {
		fmt.Fprintf(stderr, "ibrun explain: %v\n", err)
		return exitFailed
	}
	return 0
}

// parseArgs parses the arguments. Flags may precede or follow the sizes.
func parseArgs(args []string) (o options, err error) {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.transport, "transport", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	var words []string
	for rest := args; ; {
		if err := flags.Parse(rest); err != nil {
			return o, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, rest = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	switch {
	case slices.Equal(words, []string{"help"}):
		return o, flag.ErrHelp
	case len(words) != 1:
		return o, errors.New("want one argument with the sizes, such as 8,64K,1M")
	}
	var ranges cli.Ranges
	if err := ranges.Set(words[0]); err != nil {
		return o, err
	}
	for _, r := range ranges {
		o.sizes = append(o.sizes, bench.Ladder(r.Low, r.High)...)
	}
	if len(o.sizes) > maxSizes {
		return o, fmt.Errorf("too many sizes: %d, at most %d are allowed", len(o.sizes), maxSizes)
	}
	return o, nil
}

func (o options) run(stdout io.Writer) error {
	paths, err := explain.Paths(o.transport, os.Getenv, o.sizes)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(paths)
	}
	var b strings.Builder
	for i, p := range paths {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := printPath(&b, p); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, b.String())
	return err
}

// overrides returns the settings that can change a limit, except the one that it was set by.
func overrides(l explain.Limit) string {
	var names []string
	if l.Variable != l.Source && l.Variable != "" {
		names = append(names, l.Variable)
	}
	if l.Field != "" {
		names = append(names, "mpi.Thresholds."+l.Field)
	}
	return strings.Join(names, " or ")
}

// printPath writes one path: its limits, then its messages.
func printPath(b *strings.Builder, p explain.Path) error {
	fmt.Fprintf(b, "%s: %s\n", p.Transport, p.Between)
	if p.Unusable != "" {
		fmt.Fprintf(b, "  not usable on this machine: %s\n  without this obstacle:\n", strings.ReplaceAll(p.Unusable, "\n", "; "))
	}
	table := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	for _, l := range p.Limits {
		size, source := bench.FormatSize(l.Bytes), l.Source
		if l.Bytes == 0 {
			size = "unknown"
		}
		if settings := overrides(l); settings != "" {
			source += "; change it with " + settings
		}
		fmt.Fprintf(table, "  limit\t%s\t%s\t(%s)\n", l.Name, size, source)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, a := range p.Attributes {
		value, source := a.Value, a.Source
		if value == "" {
			value = "unknown"
		}
		if a.Variable != "" && a.Variable != source {
			source += "; change it with " + a.Variable
		}
		fmt.Fprintf(table, "  setting\t%s\t%s\t(%s)\n", a.Name, value, source)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, m := range p.Messages {
		how := m.Protocol
		if m.Pieces > 1 {
			how = fmt.Sprintf("%s, %d pieces", how, m.Pieces)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", bench.FormatSize(m.Bytes), how, m.Why)
	}
	return table.Flush()
}
