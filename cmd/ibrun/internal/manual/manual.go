package manual

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Page describes one command.
type Page struct {
	// Name is the command, the words after ibrun. Empty: ibrun itself.
	Name string
	// Summary is what the command does, as one clause: it begins with a small letter, and has no full stop.
	Summary string
	// Forms are the ways to write the command, without the word ibrun.
	Forms []string
	// About are paragraphs.
	About []string
	// Commands are the other commands, with their summaries.
	Commands []Entry
	// Words are the fixed words that may follow the command, for completions.
	Words []string
	// Groups are the flags.
	Groups []Group
	// Topics are the sections after the flags.
	Topics []Topic
}

// Group is a section of flags.
type Group struct {
	Title string
	Flags []Flag
}

// Flag is a flag with its spellings.
type Flag struct {
	Names []string // without dashes
	Arg   string   // the name of its value; empty: it has none
	Help  string
}

// Topic is another section: paragraphs, and then entries.
type Topic struct {
	Title   string
	Text    []string
	Entries []Entry
}

// Entry is a term with its meaning.
type Entry struct{ Term, Text string }

// IsHelp reports whether a first argument asks for the help of a command.
func IsHelp(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0])
}

// Flags returns the flags of a set, which is how a command parses them, in the order of their names. Flags without a
// description are left out. Spellings with the same description are one flag.
func Flags(set *flag.FlagSet) (flags []Flag) {
	set.VisitAll(func(f *flag.Flag) {
		arg, help := flag.UnquoteUsage(f)
		if help == "" {
			return
		}
		zero := slices.Contains([]string{"", "0", "0s", "false"}, f.DefValue)
		if !zero && !strings.Contains(help, "(default") {
			help = fmt.Sprintf("%s (default %s)", help, f.DefValue)
		}
		if i := slices.IndexFunc(flags, func(g Flag) bool { return g.Help == help && g.Arg == arg }); i >= 0 {
			flags[i].Names = append(flags[i].Names, f.Name)
			slices.SortFunc(flags[i].Names, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			return
		}
		flags = append(flags, Flag{Names: []string{f.Name}, Arg: arg, Help: help})
	})
	return flags
}

// WithDashes returns the name of a flag with its usual number of dashes.
func WithDashes(name string) string {
	if len(name) <= 2 {
		return "-" + name
	}
	return "--" + name
}

// synopsis returns the flag with its value and as many of its spellings as fit into so many columns.
func (f Flag) synopsis(columns int) string {
	var names, arg string
	if f.Arg != "" {
		arg = " " + f.Arg
	}
	for _, name := range f.Names {
		longer := strings.TrimPrefix(names+", "+WithDashes(name), ", ")
		if names != "" && len(longer+arg) > columns {
			break
		}
		names = longer
	}
	return names + arg
}

// Command returns the command line of a page: ibrun, or ibrun and the name.
func (p *Page) Command() string { return strings.TrimSpace("ibrun " + p.Name) }

// Usage returns the ways to write the command, for a message after a mistake.
func (p *Page) Usage() string {
	var b strings.Builder
	for i, form := range p.Forms {
		head := "usage:"
		if i > 0 {
			head = "      "
		}
		fmt.Fprintf(&b, "%s ibrun %s\n", head, form)
	}
	return b.String()
}

const (
	// helpWidth is the longest line of the help.
	helpWidth = 100
	// termColumns is the longest term that has its meaning on the same line.
	termColumns = 26
)

// Help returns the text of ibrun help NAME.
func (p *Page) Help() string {
	var b strings.Builder
	b.WriteString(p.Usage() + "\n" + wrap(Sentence(p.Summary), helpWidth))
	for _, text := range p.About {
		b.WriteString("\n" + wrap(text, helpWidth))
	}
	if len(p.Commands) > 0 {
		b.WriteString("\nCommands:\n\n" + entries(p.Commands))
	}
	for _, g := range p.Groups {
		var list []Entry
		for _, f := range g.Flags {
			list = append(list, Entry{f.synopsis(termColumns), f.Help})
		}
		fmt.Fprintf(&b, "\n%s:\n\n%s", g.Title, entries(list))
	}
	for _, t := range p.Topics {
		t.print(&b)
	}
	return b.String()
}

// HelpOn returns the text of ibrun help WORDS for a flag of the page, with or without dashes, or for the topics whose titles have
// all of the words. It is empty if there is none.
func (p *Page) HelpOn(words []string) string {
	var b strings.Builder
	if len(words) == 1 {
		name := strings.TrimLeft(words[0], "-")
		for _, g := range p.Groups {
			for _, f := range g.Flags {
				if slices.Contains(f.Names, name) {
					b.WriteString(f.synopsis(math.MaxInt) + "\n\n" + indent(wrap(f.Help, helpWidth-2)))
				}
			}
		}
	}
	for _, t := range p.Topics {
		title := strings.Fields(strings.ToLower(t.Title))
		if b.Len() > 0 || slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(title, strings.ToLower(w)) }) {
			continue
		}
		t.print(&b)
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// print prints the topic as a section.
func (t *Topic) print(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s:\n", t.Title)
	for _, text := range t.Text {
		b.WriteString("\n" + indent(wrap(text, helpWidth-2)))
	}
	if len(t.Entries) > 0 {
		b.WriteString("\n" + entries(t.Entries))
	}
}

// Sentence returns a clause with a capital letter and a full stop.
func Sentence(clause string) string { return strings.ToUpper(clause[:1]) + clause[1:] + "." }

// entries returns terms and their meanings in two columns.
func entries(list []Entry) string {
	column := 0
	for _, e := range list {
		if len(e.Term) <= termColumns {
			column = max(column, len(e.Term))
		}
	}
	var b strings.Builder
	for _, e := range list {
		margin := strings.Repeat(" ", column+4)
		text := strings.ReplaceAll(strings.TrimSuffix(wrap(e.Text, helpWidth-len(margin)), "\n"), "\n", "\n"+margin)
		if len(e.Term) > column {
			fmt.Fprintf(&b, "  %s\n%s%s\n", e.Term, margin, text)
			continue
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", column, e.Term, text)
	}
	return b.String()
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

// wrap breaks text between words into lines of at most that width.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
