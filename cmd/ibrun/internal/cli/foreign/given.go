package foreign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// given is a flag as given.
type given struct {
	name   string
	raw    []Word      // its words; the first is the flag
	native bool        // ibrun has a flag of this name
	rows   []*Spelling // what it may mean besides
	count  int         // how many values it has
	values []string
}

// flag reads the flag at the beginning of words, or returns nil if it is unknown. of are the launchers that the flags before it
// show.
func (t *translator) flag(words []Word, of Launcher) (*given, error) {
	g := &given{raw: words[:1]}
	text := words[0].Text
	name, value, hasValue := strings.Cut(strings.TrimPrefix(text[1:], "-"), "=")
	if t.isAttached(text) {
		name, value, hasValue = text[1:2], text[2:], true
		g.raw = []Word{{Text: "-" + name + "=" + value, Typed: text, At: words[0].At}}
	}
	g.name = name
	g.rows = slices.DeleteFunc(slices.Clone(t.rows[name]), func(s *Spelling) bool {
		return s.oneDash && strings.HasPrefix(text, "--")
	})
	takesValue, native := t.native(name)
	g.native = native
	switch {
	case len(g.rows) == 0 && !native:
		return nil, nil
	case len(g.rows) == 0 && hasValue: // ibrun's own parser checks it
		g.values = []string{value}
		return g, nil
	}
	if err := g.decideCount(of, takesValue); err != nil {
		return nil, err
	}
	if hasValue {
		g.values = []string{value}
	}
	return g, g.readValues(words)
}

// isAttached reports whether text is a letter with a number, such as -n4.
func (t *translator) isAttached(text string) bool {
	if len(text) < 3 || text[1] == '-' || strings.Trim(text[2:], "0123456789") != "" {
		return false
	}
	_, whole := t.native(text[1:])
	takesValue, _ := t.native(text[1:2])
	return !whole && t.rows[text[1:]] == nil && (takesValue || len(t.rows[text[1:2]]) > 0)
}

// decideCount sets the number of values. If the meanings differ in it, only those of the launchers count.
func (g *given) decideCount(of Launcher, takesValue bool) error {
	if len(g.rows) == 0 {
		if takesValue {
			g.count = 1
		}
		return nil
	}
	if slices.ContainsFunc(g.rows, func(s *Spelling) bool { return len(s.Args) != len(g.rows[0].Args) }) {
		possible := slices.DeleteFunc(slices.Clone(g.rows), func(s *Spelling) bool { return s.Of&of == 0 })
		if len(possible) != 1 {
			return g.ambiguous()
		}
		g.rows = possible
	}
	g.count = len(g.rows[0].Args)
	return nil
}

// readValues reads the values from the words after the flag.
func (g *given) readValues(words []Word) error {
	row := &Spelling{}
	if len(g.rows) > 0 {
		row = g.rows[0]
	}
	typed := words[0].Text
	switch {
	case g.count == 0 && len(g.values) > 0 && !g.native:
		if on, err := strconv.ParseBool(g.values[0]); err != nil || !on {
			return fmt.Errorf("%s: the flag has no value", typed)
		}
		return nil
	case row.optional:
		if len(g.values) == 0 {
			g.values = []string{""}
		}
		return nil
	}
	for len(g.values) < g.count {
		if row.pair && len(g.values) == 1 && strings.Contains(g.values[0], "=") {
			return nil
		}
		if len(g.raw) == len(words) {
			return fmt.Errorf("%s needs a value: %s", typed, strings.TrimSpace(typed+" "+strings.Join(row.Args, " ")))
		}
		g.values = append(g.values, words[len(g.raw)].Text)
		g.raw = words[:len(g.raw)+1]
	}
	return nil
}

// choose returns the row that the flag means, or nil if it means what ibrun's flag of this name means.
func (g *given) choose(of Launcher) (*Spelling, error) {
	rows := slices.DeleteFunc(slices.Clone(g.rows), func(s *Spelling) bool {
		return s.fits != nil && !s.fits(g.values[0])
	})
	switch {
	case len(rows) == 0 && (g.native || len(g.rows) == 1):
		return nil, nil
	case len(g.rows) == 1 && g.native && g.rows[0].fits == nil && !g.rows[0].oneDash && g.rows[0].NoEffect == "":
		return nil, nil // the row is there for the documentation
	case slices.ContainsFunc(rows, func(s *Spelling) bool { return s.Of&of != 0 }):
		rows = slices.DeleteFunc(rows, func(s *Spelling) bool { return s.Of&of == 0 })
	}
	if len(rows) == 1 {
		return rows[0], nil
	}
	if i := slices.IndexFunc(rows, func(s *Spelling) bool { return s.usual }); i >= 0 {
		return rows[i], nil
	}
	return nil, g.ambiguous()
}

// ambiguous returns the error of a flag with several meanings.
func (g *given) ambiguous() error {
	var meanings []string
	for _, s := range g.rows {
		text := fmt.Sprintf("%s in %s", s.Means, s.Of)
		switch {
		case s.Instead != "":
			text += fmt.Sprintf(" (%s)", expand(s.Instead, s.Args))
		case s.To == "":
			text += " (leave it out)"
		default:
			text += fmt.Sprintf(" (write %s)", strings.NewReplacer("=", " ", "$1", strings.Join(s.Args, " ")).Replace(s.To))
		}
		meanings = append(meanings, text)
	}
	return fmt.Errorf("flag %s has several meanings: %s", g.raw[0].typed(), strings.Join(meanings, "; "))
}

// launchersOf returns the launchers that have all of the flags, apart from those that ibrun has too and those with several
// meanings. It is anyLauncher if the flags do not decide.
func launchersOf(flags []given) Launcher {
	of := anyLauncher
	for _, g := range flags {
		if len(g.rows) == 1 && (!g.native || g.rows[0].telling) {
			of &= g.rows[0].Of
		}
	}
	if of == 0 {
		return anyLauncher
	}
	return of
}
