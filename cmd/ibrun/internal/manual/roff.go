package manual

import (
	"fmt"
	"strings"
)

// Source is what a manual page says about the program that it describes.
type Source struct {
	// Version is its version, and Date the day on which that was made, YYYY-MM-DD. An empty date is unknown.
	Version, Date string
}

// FileName returns the name of the manual page: ibrun-bench.1.
func (p *Page) FileName() string { return p.roffName() + ".1" }

func (p *Page) roffName() string { return strings.ReplaceAll(p.Command(), " ", "-") }

// Roff returns the manual page for man(1), in the macros of man(7). all are the pages that it refers to.
func (p *Page) Roff(from Source, all []Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" %s \"User Commands\"\n", quote(strings.ToUpper(p.roffName())), from.Date,
		quote("ibrun "+from.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s.SH SYNOPSIS\n", lines(p.roffName()+" - "+p.Summary))
	for i, form := range p.Forms {
		if i > 0 {
			b.WriteString(".br\n")
		}
		b.WriteString(lines("ibrun " + form))
	}
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, append([]string{Sentence(p.Summary)}, p.About...))
	if len(p.Commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		tagged(&b, p.Commands)
	}
	if len(p.Groups) > 0 {
		b.WriteString(".SH OPTIONS\n")
	}
	for _, g := range p.Groups {
		if len(p.Groups) > 1 {
			fmt.Fprintf(&b, ".SS %s\n", quote(g.Title))
		}
		var list []Entry
		for _, f := range g.Flags {
			list = append(list, Entry{f.synopsis(1 << 10), f.Help})
		}
		tagged(&b, list)
	}
	for _, t := range p.Topics {
		fmt.Fprintf(&b, ".SH %s\n", quote(strings.ToUpper(t.Title)))
		paragraphs(&b, t.Text)
		tagged(&b, t.Entries)
	}
	b.WriteString(".SH SEE ALSO\n")
	var others []string
	for i := range all {
		if all[i].Name != p.Name {
			others = append(others, fmt.Sprintf(".BR %s (1)", escape(all[i].roffName())))
		}
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return b.String()
}

// paragraphs writes paragraphs.
func paragraphs(b *strings.Builder, texts []string) {
	for i, text := range texts {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(lines(text))
	}
}

// tagged writes terms with their meanings.
func tagged(b *strings.Builder, list []Entry) {
	for _, e := range list {
		fmt.Fprintf(b, ".TP\n.B %s\n%s", escape(e.Term), lines(e.Text))
	}
}

// sourceWidth is the longest line of the source of a page, unless it is one word.
const sourceWidth = 78

// lines returns text as lines of input that are not requests.
func lines(text string) string {
	words := strings.Fields(escape(text))
	for i, word := range words {
		if strings.HasPrefix(word, ".") {
			words[i] = `\&` + word
		}
	}
	return wrap(strings.Join(words, " "), sourceWidth)
}

// escape replaces the characters that have a meaning for roff. A hyphen in a flag must stay one, so that it can be copied.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
}

// quote returns an argument of a macro.
func quote(text string) string { return `"` + escape(text) + `"` }
