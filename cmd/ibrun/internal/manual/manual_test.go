package manual

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testPage has everything that a page can have.
func testPage() Page {
	set := flag.NewFlagSet("x", flag.ContinueOnError)
	set.Int("np", 0, "start `N` ranks")
	set.Int("n", 0, "start `N` ranks")
	set.Bool("hidden", false, "")
	set.Duration("interval", time.Second, "measure for this `TIME`")
	return Page{Name: "do it", Summary: "do something", Forms: []string{"do it [FLAG]", "do it again"},
		About:    []string{strings.Repeat("word ", 40), ".dot 'quote' \\ back-slash"},
		Commands: []Entry{{"one", "the first"}},
		Groups:   []Group{{Title: "Flags", Flags: Flags(set)}},
		Topics: []Topic{{Title: "Exit codes", Text: []string{"They are:"},
			Entries: []Entry{{strings.Repeat("t", 30), "long"}, {"0", "good"}}}},
	}
}

func TestHelp(t *testing.T) {
	p := testPage()
	const want = `usage: ibrun do it [FLAG]
       ibrun do it again

Do something.

word word word word word word word word word word word word word word word word word word word word
word word word word word word word word word word word word word word word word word word word word

.dot 'quote' \ back-slash

Commands:

  one  the first

Flags:

  --interval TIME  measure for this TIME (default 1s)
  -n, -np N        start N ranks

Exit codes:

  They are:

  tttttttttttttttttttttttttttttt
     long
  0  good
`
	if got := p.Help(); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := p.Usage(); !strings.HasPrefix(want, got) || strings.Count(got, "\n") != 2 {
		t.Errorf("usage:\n%s", got)
	}
}

func TestRoff(t *testing.T) {
	p := testPage()
	got := p.Roff(Source{"v1", "2026-01-02"}, []Page{{}, p})
	for _, want := range []string{
		".TH \"IBRUN\\-DO\\-IT\" 1 \"2026-01-02\" \"ibrun v1\" \"User Commands\"\n", ".SH NAME\nibrun\\-do\\-it \\- do something\n",
		"\n.br\nibrun do it again\n", "\n\\&.dot \\(aqquote\\(aq \\e back\\-slash\n", "\n.TP\n.B \\-n, \\-np N\nstart N ranks\n",
		".SH \"EXIT CODES\"\nThey are:\n", ".SH SEE ALSO\n.BR ibrun (1)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if name := p.FileName(); name != "ibrun-do-it.1" {
		t.Error(name)
	}
}

func TestCommand(t *testing.T) {
	pages := []Page{{Summary: "start", Forms: []string{"PROGRAM"}}, testPage()}
	dir := t.TempDir()
	man := func(line string) (code int, out, errs string) {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var o, e bytes.Buffer
		code = Main(strings.Fields(line), Source{}, pages, file, &o, &e)
		return code, o.String(), e.String()
	}
	for _, c := range []struct {
		line      string
		code      int
		out, errs string
	}{
		{"", 0, ".TH \"IBRUN\" 1", ""},
		{"do it", 0, ".TH \"IBRUN\\-DO\\-IT\" 1", ""},
		{"--help", 0, "usage: ibrun man", ""},
		{"do", 2, "", `there is no command "do"`},
		{"--write " + dir + " do it", 2, "", "leave out do it"},
		{"--wrote x", 2, "", "-wrote"},
		{"--write /dev/null/x", 1, "", "/dev/null"},
		{"--write " + filepath.Join(dir, "a/b"), 0, "", ""},
	} {
		code, out, errs := man(c.line)
		if code != c.code || !strings.HasPrefix(out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%q: %d\n%s%s", c.line, code, out, errs)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a/b/ibrun-do-it.1")); err != nil || !strings.HasPrefix(string(text), ".TH") {
		t.Errorf("%v: %.20s", err, text)
	}
}
