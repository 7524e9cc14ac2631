package completion

import (
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/internal/transports"
)

// What the shell is to complete itself.
const (
	files       = ":files"
	directories = ":directories"
	programs    = ":commands"
)

// completer completes one command line.
type completer struct {
	commands []manual.Page // the subcommands
	getenv   func(string) string
	home     string // the folder of the user; empty: unknown
	root     string // the folder of /etc
}

// complete returns the candidates for the last word. The words before it are complete.
func (c *completer) complete(words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	if i := slices.IndexFunc(c.commands, func(p manual.Page) bool { return p.Name == words[0] }); i >= 0 && len(words) > 1 {
		return begins(c.ofCommand(&c.commands[i], last), last)
	}
	place, flag := position(words[:len(words)-1])
	name, value, hasValue := strings.Cut(strings.TrimLeft(last, "-"), "=")
	switch {
	case place == atValue:
		return c.values(flag, last, "", words)
	case place == atArgument:
		return []string{files}
	case strings.HasPrefix(last, "-") && hasValue:
		return c.values(name, value, last[:len(last)-len(value)], words)
	case strings.HasPrefix(last, "-"):
		return flags(last)
	}
	var found []string
	if len(words) == 1 {
		found = begins(c.names(), last)
	}
	if last == "" {
		found = append(found, flags("")...)
	}
	return append(found, programs, files)
}

// place is where a word stands.
type place int

const (
	atFlag     place = iota // before the program: a flag, or the program
	atValue                 // the value of a flag
	atArgument              // after the program
)

// position returns where the word after these words stands, and the name of the flag if it is a value.
func position(words []string) (p place, flag string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == ":":
			p = atFlag
		case p == atArgument:
		case word == "--" || len(word) < 2 || word[0] != '-':
			p = atArgument
			if word == "--" && i == len(words)-1 {
				return atFlag, ""
			}
		case !strings.Contains(word, "="):
			name := strings.TrimLeft(word, "-")
			if i += cli.ValueCount(name); i >= len(words) {
				return atValue, name
			}
		}
	}
	return p, ""
}

// flags returns the flags that begin with prefix, with their descriptions: those of ibrun, or if there are none, those of other
// launchers.
func flags(prefix string) []string {
	var own, foreign []string
	for _, f := range cli.Flags() {
		text := f.Name + "\t" + f.Help
		switch {
		case !strings.HasPrefix(f.Name, prefix):
		case f.Foreign:
			foreign = append(foreign, text)
		default:
			own = append(own, text)
		}
	}
	if len(own) == 0 {
		return foreign
	}
	return own
}

// names returns the names of the subcommands.
func (c *completer) names() (names []string) {
	for _, p := range c.commands {
		names = append(names, p.Name)
	}
	return names
}

// ofCommand returns the candidates for the last argument of a subcommand: its flags after a dash, otherwise its words and files.
func (c *completer) ofCommand(p *manual.Page, last string) (found []string) {
	switch {
	case strings.HasPrefix(last, "-"):
		for _, g := range p.Groups {
			for _, f := range g.Flags {
				for _, name := range f.Names {
					found = append(found, manual.WithDashes(name)+"\t"+f.Help)
				}
			}
		}
		return found
	case p.Name == "help" || p.Name == "man":
		return c.names()
	case p.Words != nil && len(p.Groups) == 0:
		return p.Words
	}
	return append(slices.Clone(p.Words), files)
}

// values returns the candidates for the value of a flag that begins with prefix. before is what precedes the value in its word.
func (c *completer) values(flag, prefix, before string, words []string) []string {
	var found []string
	item := prefix[strings.LastIndexByte(prefix, ',')+1:] // of a list
	list := prefix[:len(prefix)-len(item)]
	switch arg := cli.ValueName(flag); {
	case slices.Contains([]string{"hosts", "host", "H", "w", "nodelist"}, flag):
		found = begins(c.hosts(words), item)
	case flag == "transport":
		found = begins(transports.SelectableNames(), item)
	case fixedValues()[flag] != nil:
		list = ""
		found = begins(fixedValues()[flag], prefix)
	case strings.HasPrefix(arg, "FILE") || arg == "PATTERN" || flag == "report":
		return []string{files}
	case strings.HasPrefix(arg, "DIR"):
		return []string{directories}
	case arg == "CMD":
		return []string{programs, files}
	}
	for i := range found {
		found[i] = before + list + found[i]
	}
	return found
}

// fixedValues returns the values of flags that have only a few.
func fixedValues() map[string][]string {
	objects := []string{"hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package", "node"}
	return map[string][]string{
		"map-by":         append([]string{"slot", "device", "nic", "gpu", "ppr:"}, objects...),
		"bind-to":        append([]string{"none"}, objects...),
		"checksum":       {"on", "off"},
		"cpu-bind":       {"none", "cores", "sockets", "ldoms", "threads", "verbose"},
		"distribution":   {"block", "cyclic", "block:cyclic"},
		"m":              {"block", "cyclic", "block:cyclic"},
		"nproc-per-node": {"gpu", "cpu"},
		"nproc_per_node": {"gpu", "cpu"},
		"export":         {"ALL"},
		"display":        {"bindings", "map"},
	}
}

// begins returns the candidates that begin with prefix, or that ask the shell.
func begins(candidates []string, prefix string) (found []string) {
	for _, c := range candidates {
		if strings.HasPrefix(c, prefix) || c[0] == ':' {
			found = append(found, c)
		}
	}
	return found
}
