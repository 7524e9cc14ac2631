package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatements(t *testing.T) {
	all, err := readStatements(statementsText)
	if err != nil {
		t.Fatal(err)
	}
	total, bindings := 0, 0
	for _, section := range all {
		for _, s := range section.statements {
			total++
			if strings.ContainsAny(s.tags, "CF") {
				bindings++
			}
		}
	}
	_, apply := tally(all, nil)
	if total != 295 || bindings != 16 || total-bindings-apply != 22 || apply != 257 {
		t.Errorf("%d statements: %d of bindings, %d apply; want 295, 16 and 257", total, bindings, apply)
	}
	for _, bad := range []string{
		"S0-01 L: before any section",
		"## a\nS0-01 L: one\nS0-01 L: again",
		"## a\nnothing of the kind",
		"## a\nS0-01 L: applies ! and yet has a reason not to",
		"## a\nS0-01 LC: of the binding for C, without a reason",
	} {
		if _, err := readStatements(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestIDsOf(t *testing.T) {
	for test, want := range map[string]string{
		"mpi.TestX/S0-57":              "map[S0-57:mpi.TestX/S0-57]",
		"mpi.TestX/S0-57#01/deep":      "map[S0-57:mpi.TestX/S0-57#01]",
		"mpi.TestX/a/S4-K1/b/S4-01":    "map[S4-01:mpi.TestX/a/S4-K1/b/S4-01 S4-K1:mpi.TestX/a/S4-K1]",
		"mpi.TestX/S0-5x":              "map[]",
		"mpi.TestX":                    "map[]",
		"cmd/ibrun.TestX/S3-01":        "map[S3-01:cmd/ibrun.TestX/S3-01]",
		"mpi.TestX/S0-57_is_not_an_id": "map[]",
	} {
		if got := fmt.Sprint(idsOf(test)); got != want {
			t.Errorf("%s carries %s, want %s", test, got, want)
		}
	}
}

const someStatements = "## one\nS0-01 L: first\nS0-02 M: second\n## two\nS0-03 C: third ! C only\nS0-04 A: fourth ! advice\n"

func TestEvaluate(t *testing.T) {
	statements, err := readStatements(someStatements)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		here, nodes results
		hold        int
		says        string // of S0-01
	}{
		{results{"m.T": passed, "m.T/S0-01": passed}, results{"m.T/S0-01": passed}, 1, ""},
		{results{"m.T/S0-01": passed, "m.U/S0-02": passed}, nil, 2, ""},
		{results{"m.T": failed, "m.T/S0-01": passed}, nil, 1, ""}, // something else failed
		{nil, nil, 0, "no test has run"},
		{results{"m.T/S0-01": failed}, nil, 0, "m.T/S0-01, one node: fail"},
		{results{"m.T/S0-01": passed}, results{"m.T/S0-01": failed}, 0, "m.T/S0-01, several nodes: fail"},
		{results{"m.T/S0-01": skipped}, nil, 0, "skip"},
		{results{"m.T/S0-01": unfinished}, nil, 0, "unfinished"},
		{results{"m.T/S0-01": passed, "m.T/S0-01/part": skipped}, nil, 0, "m.T/S0-01/part, one node: skip"},
		{results{"m.T/S0-01": passed, "n.U/S0-01": failed}, nil, 0, "n.U/S0-01, one node: fail"},
	} {
		verdicts, err := evaluate(statements, []results{c.here, c.nodes}, scopes{"m.U": {ranks: 2}})
		if err != nil {
			t.Fatal(err)
		}
		hold, apply := tally(statements, verdicts)
		first := verdicts["S0-01"]
		if hold != c.hold || apply != 2 || !strings.Contains(first.why, c.says) || first.holds != (c.says == "") {
			t.Errorf("%v and %v: %d of %d hold, %+v", c.here, c.nodes, hold, apply, first)
		}
	}
	if _, err := evaluate(statements, []results{{"m.T/S0-99": passed}}, nil); err == nil {
		t.Error("an id without a statement was accepted")
	}
}

// TestMarkUnfinished: a test that ran in one place and not in the other has not passed there.
func TestMarkUnfinished(t *testing.T) {
	here, nodes := results{"m.T/S0-01": passed, "other.T/S0-01": passed}, results{"m.U/S0-02": passed}
	here.markUnfinished(nodes)
	nodes.markUnfinished(here.of("m"))
	if here["m.U/S0-02"] != unfinished || nodes["m.T/S0-01"] != unfinished || len(here) != 3 || len(nodes) != 2 {
		t.Errorf("%v, %v", here, nodes)
	}
}

func TestReport(t *testing.T) {
	statements, err := readStatements(someStatements)
	if err != nil {
		t.Fatal(err)
	}
	page := report(statements, map[string]verdict{
		"S0-01": {holds: true, tests: []string{"m.T/S0-01"}, scope: scope{ranks: 3, nodes: 2, processes: true}},
		"S0-02": {why: "a|b"}, "S0-03": {why: "no test has run"},
	})
	for _, line := range []string{
		"1 of 2 statements pass.",
		"| S0-01 | L | first | pass | `m.T/S0-01` | 3 ranks, 2 nodes; processes |",
		`| S0-02 | M | second | **does not pass**: a\|b |  |  |`,
		"| S0-03 | C | third | does not apply: C only |  |  |",
		"| S0-04 | A | fourth | does not apply: advice |  |  |",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page lacks %q:\n%s", line, page)
		}
	}
}

func TestReadEvents(t *testing.T) {
	const text = `{"Action":"start","Package":"m"}
{"Action":"run","Package":"m","Test":"T"}
{"Action":"run","Package":"m","Test":"T/S0-01"}
{"Action":"output","Package":"m","Test":"T/S0-01","Output":"hello\n"}
{"Action":"pass","Package":"m","Test":"T/S0-01","Elapsed":0.1}
{"Action":"run","Package":"m","Test":"U"}
{"Action":"attr","Package":"m","Test":"U","Key":"world","Value":"3 ranks on 2 nodes"}
{"Action":"attr","Package":"m","Test":"U","Key":"color","Value":"green"}
{"Action":"fail","Package":"m","Elapsed":0.1}
`
	r, scopesOf, output := results{}, scopes{}, new(bytes.Buffer)
	err := r.readEvents("m", strings.NewReader(text), output, scopesOf)
	if err != nil || fmt.Sprint(r) != "map[m.T:unfinished m.T/S0-01:pass m.U:unfinished]" || output.String() != "hello\n" ||
		scopesOf.of("m.U").String() != "3 ranks, 2 nodes" {
		t.Errorf("%v, %v, %q, %v", r, scopesOf, output, err)
	}
	for n := range len(text) - 1 {
		err := results{}.readEvents("m", strings.NewReader(text[:n]), new(bytes.Buffer), scopes{})
		if whole := n == 0 || text[n-1] == '\n' || text[n] == '\n'; (err == nil) != whole {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestScope: a tag requires a world that the test itself, a subtest or a test that contains it had. Worlds of other tests do
// not count.
func TestScope(t *testing.T) {
	scopesOf := scopes{}
	for _, a := range [][3]string{
		{"m.A", "changes", "bindings, the machine"},
		{"m.A/S0-01/deep", "world", "3 ranks on 1 nodes"}, {"m.A/S0-01/deep", "world", "2 processes on 2 nodes"},
		{"m.A/S0-011", "namespaces", "time"},
	} {
		if err := scopesOf.note(a[0], a[1], a[2]); err != nil {
			t.Fatal(err)
		}
	}
	const both = "3 ranks, 2 nodes; processes; changes: bindings, the machine"
	if got := scopesOf.of("m.A/S0-01"); got.String() != both || got.missing("MNT") != "" {
		t.Errorf("%s, which lacks %q", got, got.missing("MNT"))
	}
	for tags, lacks := range map[string]string{
		"L": "", "M": "no test had several ranks", "LN": "no test had several nodes", "MT": "no test had several ranks", "D": "",
	} {
		if got := scopesOf.of("m.A/S0-011").missing(tags); got != lacks {
			t.Errorf("%s: lacks %q, want %q", tags, got, lacks)
		}
	}
	if got := scopesOf.of("m.B").missing("T"); got != "nothing changed in any test" {
		t.Errorf("lacks %q", got)
	}
	if err := scopesOf.note("m.A", "world", "many ranks"); err == nil {
		t.Error("a world without a number was accepted")
	}
}

// TestConform runs the command on a module of its own.
func TestConform(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"a/a_test.go": `package a

import "testing"

var table = map[string]bool{"S0-01": true, "S0-02": false}

func TestTable(t *testing.T) {
	for id, ok := range table {
		t.Run(id, func(t *testing.T) {
			if !ok {
				t.Fail()
			}
		})
	}
}

func TestDirect(t *testing.T) { t.Run("S0-03", func(t *testing.T) { t.Skip("not here") }) }

func TestOther(t *testing.T) { t.Fatal("has no id, and is not run") }
`,
		"b/b_test.go":          "package b\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) { t.Fatal(\"is not run\") }\n",
		"a/testdata/x_test.go": "this is not Go",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	suites, err := findSuites(root)
	if err != nil || fmt.Sprint(suites) != "[{a [TestDirect TestTable] false}]" {
		t.Errorf("found %v, %v", suites, err)
	}
	var out, output bytes.Buffer
	err = conform(t.Context(), root, "page.md", &out, &output)
	page, errPage := os.ReadFile(filepath.Join(root, "page.md"))
	if err == nil || errPage != nil || !strings.HasSuffix(out.String(), "\n1 of 257 statements pass\n") ||
		!strings.Contains(out.String(), "\nS0-03: a.TestDirect/S0-03, one node: skip\n") ||
		!strings.Contains(out.String(), "\nS0-02: a.TestTable/S0-02, one node: fail\n") ||
		!strings.Contains(string(page), "| pass | `a.TestTable/S0-01` |") || !strings.Contains(output.String(), "not here") {
		t.Errorf("%v, %v\n%s\n%s\n%.3000s", err, errPage, out.String(), output.String(), page)
	}
}
