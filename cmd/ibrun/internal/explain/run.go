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
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi/explain"
)

// Page returns the description of the command.
func Page() manual.Page {
	return manual.Page{Name: "explain",
		Summary: "show how messages of a size travel, which algorithm a collective uses, and why",
		Forms: []string{"explain SIZE[,SIZE...] [--transport LIST] [--json]",
			"explain COLLECTIVE[,COLLECTIVE...] SIZE[,SIZE...] [--ranks LIST] [--json]"},
		About: []string{"The first form prints how messages of these sizes, such as 8,64K,1M, travel over each transport, and why, " +
			"and all settings in force. The second one prints which algorithms collectives such as allreduce use, and why. A " +
			"range such as 1K-8K selects the powers of 2 in it."},
		Groups: []manual.Group{{Title: "Flags", Flags: manual.Flags(new(options).flags(new(cli.Ranges)))}},
	}
}

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

	collectives []string // nil: messages
	ranks       []int
}

// Main is `ibrun explain args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		page := Page()
		fmt.Fprint(stdout, page.Help())
		return 0
	case err != nil:
		page := Page()
		fmt.Fprintf(stderr, "ibrun explain: %v\n%s", err, page.Usage())
		return exitUsage
	}
	if err := o.run(stdout); err != nil {
		fmt.Fprintf(stderr, "ibrun explain: %v\n", err)
		return exitFailed
	}
	return 0
}

// flags returns the flags of the command.
func (o *options) flags(ranks *cli.Ranges) *flag.FlagSet {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(cli.WordList(&o.transport), "transport", "show only the transports in `LIST`, of "+
		strings.Join(transports.SelectableNames(), ", "))
	flags.BoolVar(&o.json, "json", false, "print one JSON array")
	*ranks = cli.Ranges{{Low: 2, High: 2}, {Low: 8, High: 8}, {Low: 64, High: 64}, {Low: 1024, High: 1024}}
	flags.Var(cli.NumberList(ranks), "ranks", "numbers of ranks of the collectives: a `LIST` (default 2,8,64,1024)")
	return flags
}

// parseArgs parses the arguments. Flags may precede or follow the sizes.
func parseArgs(args []string) (o options, err error) {
	var ranks cli.Ranges
	flags := o.flags(&ranks)
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
	case len(words) == 2:
		o.collectives, words = strings.Split(words[0], ","), words[1:]
		if _, err := explain.Collectives(func(string) string { return "" }, o.collectives, nil, nil); err != nil {
			return o, err
		}
	case len(words) != 1:
		return o, errors.New("want the sizes, such as 8,64K,1M, or a collective and the sizes")
	}
	var ranges cli.Ranges
	if err := ranges.Set(words[0]); err != nil {
		return o, err
	}
	if o.sizes, err = numbers(ranges, "sizes"); err == nil {
		o.ranks, err = numbers(ranks, "numbers of ranks")
	}
	if slices.Contains(o.ranks, 0) {
		return o, errors.New("a collective has at least one rank")
	}
	return o, err
}

// numbers returns the numbers in ranges.
func numbers(ranges cli.Ranges, what string) (list []int, err error) {
	for _, r := range ranges {
		list = append(list, bench.Ladder(r.Low, r.High)...)
	}
	if len(list) > maxSizes {
		return nil, fmt.Errorf("too many %s: %d, at most %d are allowed", what, len(list), maxSizes)
	}
	return list, nil
}

func (o options) run(stdout io.Writer) error {
	if o.collectives != nil {
		return o.runCollectives(stdout)
	}
	paths, err := explain.Paths(o.transport, os.Getenv, o.sizes)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(stdout, paths)
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

func printJSON(stdout io.Writer, x any) error {
	e := json.NewEncoder(printable.NewJSONWriter(stdout))
	e.SetIndent("", "  ")
	return e.Encode(x)
}

// runCollectives prints a table for each collective.
func (o options) runCollectives(stdout io.Writer) error {
	all, err := explain.Collectives(os.Getenv, o.collectives, o.sizes, o.ranks)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(stdout, all)
	}
	table := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	for i, c := range all {
		if i == 0 || c.Name != all[i-1].Name {
			if i > 0 {
				fmt.Fprintln(table)
			}
			fmt.Fprintf(table, "%s\tsize\twhere\tcall\talgorithm\t\n", c.Name)
		}
		fmt.Fprintf(table, "  %d ranks\t%s", c.Ranks, bench.FormatSize(c.Bytes))
		for j, line := range []struct {
			ranks, call string
			a           explain.Algorithm
		}{
			{"on one node", "blocking", c.OnNode}, {"with fewer cores", "blocking", c.OnOversubscribedNode},
			{"on several NUMA nodes", "blocking", c.OnNUMANodes},
			{"on one node", "immediate", c.Immediate}, {"on one node", "persistent", c.Apart},
			{"several on each node", "blocking, immediate", c.OnNodes}, {"several on each node", "persistent", c.PersistentOnNodes},
			{"one on each node", "any", c.Apart},
		} {
			if j > 0 {
				fmt.Fprint(table, "\t")
			}
			fmt.Fprintf(table, "\t%s\t%s\t%s\t(%s)\n", line.ranks, line.call, line.a.Name, line.a.When)
		}
	}
	return table.Flush()
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
		if l.Bytes == 0 && p.Unusable != "" { // a device that is used may grant 0
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
