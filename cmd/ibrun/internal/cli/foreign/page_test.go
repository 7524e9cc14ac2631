package foreign

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// pageHead is the text of the page before the tables.
//
//go:embed testdata/page.md
var pageHead string

var update = flag.Bool("update", false, "write docs/migrating.md")

// TestPage: docs/migrating.md is what the table says.
func TestPage(t *testing.T) {
	const name = "../../../../../docs/migrating.md"
	if *update {
		if err := os.WriteFile(name, []byte(migrating()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != migrating() {
		t.Error("docs/migrating.md is not what the table says: run make migrating")
	}
}

// TestTable: rows are complete, and a name in several rows is explained in each of them.
func TestTable(t *testing.T) {
	byName := index(Table())
	for _, s := range Table() {
		name := strings.Join(s.Names, ", ")
		if s.Of == 0 || len(s.Names) == 0 || s.To == "" && s.NoEffect == "" && s.Instead == "" {
			t.Errorf("the row of %s is incomplete: %+v", name, s)
		}
		if s.Instead != "" && (s.To != "" || s.NoEffect != "") {
			t.Errorf("%s has a counterpart, and is an error", name)
		}
		if s.fits != nil && len(s.Args) != 1 || s.pair && len(s.Args) != 2 || s.optional && len(s.Args) != 1 {
			t.Errorf("%s has %d values", name, len(s.Args))
		}
		for _, n := range s.Names {
			if len(byName[n]) > 1 && s.Means == "" {
				t.Errorf("%d rows have the name %s, but that of %s does not say what it means", len(byName[n]), n, s.Of)
			}
			if n != strings.TrimLeft(n, "-") || len(byName[n]) > 1 && len(s.Names) > 1 {
				t.Errorf("name %s of %s", n, s.Of)
			}
		}
		if slices.Contains(s.Args, "") {
			t.Errorf("%s has a value without a name", name)
		}
	}
	seen := map[string]bool{}
	for _, g := range FlagGuesses() {
		for _, n := range g.Names {
			if byName[n] != nil || seen[n] {
				t.Errorf("the guess %s is a flag of a launcher, or is there twice", n)
			}
			seen[n] = true
		}
	}
	if !slices.Contains(Names(), "ntasks") || slices.Contains(Names(), "genvlist") {
		t.Error("flags with a counterpart are suggested, and only those")
	}
}

// migrating returns docs/migrating.md.
func migrating() string {
	var b strings.Builder
	b.WriteString(strings.Replace(pageHead, "GUESSES\n", guessTable(), 1))
	b.WriteString("| flag | meaning | of | here |\n|---|---|---|---|\n")
	byName := index(Table())
	for _, s := range Table() {
		if name := s.Names[0]; len(byName[name]) > 1 {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", withDashes(name, Slurm), s.Means, s.Of, s.cell())
		}
	}
	for _, l := range []struct {
		of    Launcher
		title string
	}{
		{OpenMPI, "mpirun of Open MPI 4 and 5"}, {Hydra, "mpiexec of MPICH and Intel " +
			"MPI"}, {Slurm, "srun"}, {Torchrun, "torchrun"},
		{TACC, "ibrun of TACC and SDSC"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | here |\n|---|---|\n", l.title)
		for _, s := range Table() {
			if s.Of&l.of != 0 && !s.isSame(l.of) {
				fmt.Fprintf(&b, "| %s | %s |\n", s.synopsis(l.of), s.cell())
			}
		}
		if same := sameFlags(l.of); len(same) > 0 {
			fmt.Fprintf(&b, "\nThe same in ibrun: %s.\n", strings.Join(same, ", "))
		}
		if l.of == OpenMPI {
			b.WriteString("\nMCA parameters, `--mca NAME VALUE`:\n\n| name | here |\n|---|---|\n")
			for _, s := range Parameters() {
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(s.Names, "`, `"), s.cell())
			}
			b.WriteString("\nAll others are errors, because ibrun does not connect programs of Open MPI.\n")
		}
	}
	return b.String()
}

// guessTable returns the table of words and flags that belong to no launcher.
func guessTable() string {
	var b strings.Builder
	b.WriteString("| you write | write instead |\n|---|---|\n")
	for _, list := range []struct {
		head    string
		guesses []Guess
	}{{"`ibrun ", CommandGuesses()}, {"`--", FlagGuesses()}} {
		for _, g := range list.guesses {
			fmt.Fprintf(&b, "| %s%s` | %s |\n", list.head, strings.Join(g.Names, "`, `"+strings.TrimPrefix(list.head, "`ibrun ")), g.Write)
		}
	}
	return b.String() + "\n"
}

// synopsis returns the flag and its values.
func (s *Spelling) synopsis(of Launcher) string {
	var names []string
	for _, name := range s.Names {
		names = append(names, "`"+withDashes(name, of)+"`")
	}
	last := len(names) - 1
	for i, arg := range s.Args {
		glue := " "
		if s.optional {
			arg, glue = "="+arg+"]", "["
		}
		if i == 0 || !s.optional {
			names[last] = strings.TrimSuffix(names[last], "`") + glue + arg + "`"
		}
	}
	return strings.ReplaceAll(strings.Join(names, ", "), "|", `\|`)
}

// cell returns what the flag is here.
func (s *Spelling) cell() string {
	var text string
	switch {
	case s.To != "":
		var words []string
		for word := range strings.FieldsSeq(s.To) {
			words = append(words, strings.Replace(word, "=", " ", 1))
		}
		text = "`" + expand(strings.Join(words, " "), s.Args) + "`"
		if s.NoEffect != "" {
			text += "; " + s.NoEffect
		}
	case s.NoEffect != "":
		text = "without effect: " + s.NoEffect
	default:
		text = "an error: " + quoted(expand(s.Instead, s.Args))
	}
	if s.Note != "" {
		text += "; " + s.Note
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

// quoted puts what the user should type into backquotes: all that follows "write: ".
func quoted(text string) string {
	before, command, found := strings.Cut(text, "write: ")
	if !found {
		return strings.NewReplacer("*", `\*`, "<", `\<`).Replace(text)
	}
	return before + "write `" + command + "`"
}

// isSame reports whether the flag is the same in ibrun.
func (s *Spelling) isSame(of Launcher) bool {
	flag := strings.NewReplacer("`", "", " ", "=").Replace(s.synopsis(of))
	return s.Note == "" && s.Means == "" && s.NoEffect == "" && len(s.Names) == 1 && s.convert == nil &&
		strings.TrimLeft(flag, "-") == strings.TrimLeft(expand(s.To, s.Args), "-")
}

// sameFlags returns the flags of the launcher that are the same in ibrun.
func sameFlags(of Launcher) (flags []string) {
	for _, s := range Table() {
		if s.Of&of != 0 && s.isSame(of) {
			flags = append(flags, s.synopsis(of))
		}
	}
	slices.Sort(flags)
	return flags
}
