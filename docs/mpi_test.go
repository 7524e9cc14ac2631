// Package docs has no code: it holds the documents, and the test that the table of MPI's functions is complete.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	table     = "mpi.md"
	standard  = "testdata/mpi-5.0-functions.txt" // every C function of MPI-5.0, one name a line
	publicAPI = "../internal/apitest/api.txt"
)

// absent begins the cell of a function that package mpi does not have. The reason follows.
const absent = "none: "

// row is a line of a table of mpi.md: functions of the standard, or a call that the standard does not have.
type row struct {
	functions []string // of C. One that ends in * is all whose names begin so. Empty: the standard has none
	ours      []string
	reason    string // why there is no call of ours
}

// TestEveryFunctionOfTheStandard compares the C names of the tables with those of the standard. A name that ends in _c is
// the same function with other types of integers, so the table does not have it.
func TestEveryFunctionOfTheStandard(t *testing.T) {
	names := strings.Fields(read(t, standard))
	var want, got []string
	for _, name := range names {
		if base, large := strings.CutSuffix(name, "_c"); !large || !slices.Contains(names, base) {
			want = append(want, name)
		}
	}
	for _, r := range rows(t) {
		for _, name := range r.functions {
			begin, several := strings.CutSuffix(name, "*")
			if !several {
				got = append(got, name)
				continue
			}
			all := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return !strings.HasPrefix(name, begin) })
			if len(all) == 0 {
				t.Errorf("%s: the standard has no such function", name)
			}
			got = append(got, all...)
		}
	}
	if len(want) < 500 {
		t.Errorf("%s has only %d functions", standard, len(want))
	}
	for _, name := range want {
		if n := count(got, name); n != 1 {
			t.Errorf("%s is in %d rows; want 1", name, n)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s is not a function of the standard", name)
		}
	}
}

// TestOurNamesExist finds every name of the last column in the public API. A row without a name has a reason.
func TestOurNamesExist(t *testing.T) {
	known, _ := exported(t)
	for _, r := range rows(t) {
		if (len(r.ours) == 0) == (r.reason == "") {
			t.Errorf("%s: want either a call of package mpi, or %q with a reason", r.functions, absent)
		}
		for _, name := range r.ours {
			if !known[name] {
				t.Errorf("%s: package mpi does not export %s", r.functions, name)
			}
		}
	}
}

// TestEveryCallIsInTheTable finds every exported function and method of package mpi in the tables.
func TestEveryCallIsInTheTable(t *testing.T) {
	_, calls := exported(t)
	var listed []string
	for _, r := range rows(t) {
		listed = append(listed, r.ours...)
	}
	for _, name := range calls {
		if !slices.Contains(listed, name) {
			t.Errorf("mpi.%s is in no table of %s: add it to the row of the C function that it stands for, or to the last table",
				name, table)
		}
	}
}

// TestRowsAreParsed shows what a line of a table means.
func TestRowsAreParsed(t *testing.T) {
	for _, c := range []struct {
		line string
		want row
	}{
		{"| `MPI_Send` | `Comm.Send` | `Send`, `Comm.Send` |",
			row{functions: []string{"MPI_Send"}, ours: []string{"Send", "Comm.Send"}}},
		{"| `MPI_Put` | `Win.Put` | none: use `Send` |", row{functions: []string{"MPI_Put"}, reason: "use `Send`"}},
		{"| `MPI_Put`, `MPI_Win_*` | `Win` | none: x |", row{functions: []string{"MPI_Put", "MPI_Win_*"}, reason: "x"}},
		{"| `Process.World` | MPI_COMM_WORLD |", row{ours: []string{"Process.World"}}},
		{"| `MPI_Put` | `Win.Put` | none: |", row{functions: []string{"MPI_Put"}}},
	} {
		got, ok := parseRow(c.line)
		if !ok || got.reason != c.want.reason || !slices.Equal(got.functions, c.want.functions) ||
			!slices.Equal(got.ours, c.want.ours) {
			t.Errorf("%s: %+v, %v; want %+v", c.line, got, ok, c.want)
		}
	}
	for _, line := range []string{"| C | mpi4py | ibrun |", "|---|---|---|", "text", ""} {
		if got, ok := parseRow(line); ok {
			t.Errorf("%q: %+v; want no row", line, got)
		}
	}
}

// rows returns the rows of all tables.
func rows(t *testing.T) (list []row) {
	t.Helper()
	for line := range strings.Lines(read(t, table)) {
		if r, ok := parseRow(strings.TrimSpace(line)); ok {
			list = append(list, r)
		}
	}
	return list
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// parseRow parses a line with calls in its first cell.
func parseRow(line string) (r row, ok bool) {
	line, ok = strings.CutPrefix(line, "| `")
	if !ok {
		return row{}, false
	}
	cells := strings.Split(strings.TrimSuffix("`"+line, " |"), " | ")
	first, last := codeSpans(cells[0]), cells[len(cells)-1]
	if len(first) == 1 && !strings.HasPrefix(first[0], "MPI_") {
		return row{ours: first}, true
	}
	if reason, isAbsent := strings.CutPrefix(last, absent); isAbsent {
		return row{functions: first, reason: reason}, true
	}
	return row{functions: first, ours: codeSpans(last)}, true
}

// codeSpans returns what is between backquotes.
func codeSpans(text string) (list []string) {
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		list = append(list, span[1])
	}
	return list
}

var (
	method      = regexp.MustCompile(`^mpi: func \(\*?(\w+)[^)]*\) (\w+)`)
	declaration = regexp.MustCompile(`^mpi: (func|const|var|type) (\w+)`)
	structType  = regexp.MustCompile(`^mpi: type (\w+) struct\{(.*)\}`)
)

// exported returns all names of package mpi, with fields and methods as Type.Name, and those of functions and methods.
func exported(t *testing.T) (known map[string]bool, calls []string) {
	t.Helper()
	known = map[string]bool{}
	for line := range strings.Lines(read(t, publicAPI)) {
		if m := method.FindStringSubmatch(line); m != nil {
			calls = append(calls, m[1]+"."+m[2])
			continue
		}
		m := declaration.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		known[m[2]] = true
		if m[1] == "func" {
			calls = append(calls, m[2])
		}
		if m = structType.FindStringSubmatch(line); m != nil {
			for field := range strings.SplitSeq(m[2], ";") {
				name, _, _ := strings.Cut(strings.TrimSpace(field), " ")
				known[m[1]+"."+name] = true
			}
		}
	}
	for _, name := range calls {
		known[name] = true
	}
	if len(calls) < 100 {
		t.Fatalf("%s has only %d calls of package mpi", publicAPI, len(calls))
	}
	return known, calls
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func count(list []string, name string) (n int) {
	for _, s := range list {
		if s == name {
			n++
		}
	}
	return n
}

// TestExamples: every subject of the list has an example.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../mpi/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var examples []string
	for _, file := range files {
		for _, m := range regexp.MustCompile(`(?m)^func Example(\w*?)(?:_[a-z]\w*)?\(\)`).FindAllStringSubmatch(read(t, file), -1) {
			examples = append(examples, strings.ReplaceAll(m[1], "_", "."))
		}
	}
	subjects := strings.Split(bySubject(t), "//   - ")[1:]
	if len(subjects) < 15 || len(examples) < 25 {
		t.Errorf("only %d subjects and %d examples were found", len(subjects), len(examples))
	}
	for i, subject := range subjects {
		has := func(name string) bool { return strings.Contains(subject, "["+name+"]") }
		if i > 0 && !slices.ContainsFunc(examples, has) { // that of the first is the example of the package
			t.Errorf("no call has an example: %s", subject)
		}
	}
}

// bySubject returns the list of calls in the comment of package mpi.
func bySubject(t *testing.T) string {
	t.Helper()
	const begin, end = "// # Calls by subject\n", "\n// # "
	_, list, found := strings.Cut(read(t, "../mpi/doc.go"), begin)
	list, _, ended := strings.Cut(list, end)
	if !found || !ended {
		t.Fatalf("mpi/doc.go has no section between %q and %q", begin, end)
	}
	return list
}

// TestCallsBySubject finds every exported function of package mpi once in the list of its comment, and every call there in the
// public API.
func TestCallsBySubject(t *testing.T) {
	var listed []string
	for _, m := range regexp.MustCompile(`\[([\w.]+)\]`).FindAllStringSubmatch(bySubject(t), -1) {
		listed = append(listed, m[1])
	}
	known, calls := exported(t)
	for _, name := range calls {
		if n := count(listed, name); !strings.Contains(name, ".") && n != 1 {
			t.Errorf("%s is %d times in the list by subject of mpi/doc.go; want once", name, n)
		}
	}
	for _, name := range listed {
		if !known[name] && !slices.Contains([]string{"Request", "Status"}, name) {
			t.Errorf("mpi/doc.go lists %s, which package mpi does not export", name)
		}
	}
}
