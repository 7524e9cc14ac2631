package apitest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	file = "api.txt"
)

var update = flag.Bool("update", false, "write api.txt")

// TestAPI compares the exported declarations of all public packages with api.txt.
func TestAPI(t *testing.T) {
	got, err := api(root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	removed, added := difference(want, got), difference(got, want)
	for _, l := range removed {
		t.Errorf("removed or changed: %s", l)
	}
	for _, l := range added {
		t.Errorf("new: %s", l)
	}
	if t.Failed() {
		t.Error("the public API changed. If this is intended: go test ./internal/apitest -update, and a line in CHANGELOG.md; " +
			"a removal or a change breaks users, see docs/compatibility.md")
	}
}

// TestDeclarations shows what the text of each kind of declaration is.
func TestDeclarations(t *testing.T) {
	const source = `package p
import "io"
type T struct { A, b int; io.Reader; c }
type I interface { M(x int) error; hidden() }
type L = T
type G[E any] struct{ V E }
type hiddenType struct{ A int }
type c struct{}
func F(a, b int) (n int, err error) { return }
func unexported() {}
func (t *T) M() {}
func (h hiddenType) N() {}
func (g *G[E]) Get() E { return g.V }
const C, d = 1, 2
var V io.Writer
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"const C",
		"func (*G[E]) Get() E",
		"func (*T) M()",
		"func F(a, b int) (n int, err error)",
		"type G[E any] struct{ V E }",
		"type I interface { M(x int) error; unexported methods }",
		"type L = T",
		"type T struct { A int; io.Reader; unexported fields }",
		"var V io.Writer",
	}
	got := declarations(f)
	slices.Sort(got)
	for i := range want {
		want[i] = normalise(want[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// difference returns the lines of a that b does not have.
func difference(a, b []string) (only []string) {
	in := make(map[string]bool, len(b))
	for _, l := range b {
		in[l] = true
	}
	for _, l := range a {
		if !in[l] {
			only = append(only, l)
		}
	}
	return only
}

// api returns a sorted line for each exported declaration of each public package, as linux/amd64 builds it without cgo.
func api(root string) ([]string, error) {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", false
	var lines []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if path != root && !public(rel) {
			return fs.SkipDir
		}
		p, err := ctx.ImportDir(path, 0)
		if _, none := err.(*build.NoGoError); none || err == nil && p.Name == "main" {
			return nil
		} else if err != nil {
			return err
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(path, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, l := range declarations(f) {
				lines = append(lines, filepath.ToSlash(rel)+": "+l)
			}
		}
		return nil
	})
	slices.Sort(lines)
	return slices.Compact(lines), err
}

// public reports whether packages in a folder can be imported from other modules.
func public(dir string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(dir), "/") {
		if part == "internal" || part == "testdata" || part == "examples" || part == "cmd" || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return true
}

// declarations returns a line for each exported declaration of a file.
func declarations(f *ast.File) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, normalise(fmt.Sprintf(format, args...))) }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(strings.TrimLeft(text(d.Recv.List[0].Type), "*")) {
				continue
			}
			receiver := ""
			if d.Recv != nil {
				receiver = "(" + text(d.Recv.List[0].Type) + ") "
			}
			signature := strings.TrimPrefix(text(d.Type), "func")
			if d.Type.TypeParams != nil {
				signature = strings.TrimPrefix(text(&ast.FuncDecl{Name: d.Name, Type: d.Type}), "func "+d.Name.Name)
			}
			add("func %s%s%s", receiver, d.Name.Name, signature)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				specification(d.Tok, s, add)
			}
		}
	}
	return lines
}

// specification adds the lines of one constant, variable or type specification.
func specification(tok token.Token, s ast.Spec, add func(string, ...any)) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		switch x := s.Type.(type) {
		case *ast.StructType:
			x.Fields = exported(x.Fields, "fields")
		case *ast.InterfaceType:
			x.Methods = exported(x.Methods, "methods")
		}
		s.Doc, s.Comment = nil, nil
		add("type %s", text(s))
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if !name.IsExported() {
				continue
			}
			if s.Type == nil {
				add("%s %s", tok, name.Name)
			} else {
				add("%s %s %s", tok, name.Name, text(s.Type))
			}
		}
	}
}

// exported returns the exported ones of a list of fields or methods, and one more that says whether there are others. The
// latter matters: a struct without unexported fields can be compared and converted, an interface without unexported methods
// implemented.
func exported(l *ast.FieldList, what string) *ast.FieldList {
	out := &ast.FieldList{Opening: l.Opening, Closing: l.Closing}
	hidden := false
	for _, f := range l.List {
		kept := &ast.Field{Type: f.Type, Tag: f.Tag}
		for _, n := range f.Names {
			if n.IsExported() {
				kept.Names = append(kept.Names, n)
			} else {
				hidden = true
			}
		}
		embedded := text(f.Type)
		embedded = strings.TrimLeft(embedded[strings.LastIndexByte(embedded, '.')+1:], "*~")
		if len(kept.Names) > 0 || len(f.Names) == 0 && (what == "methods" || ast.IsExported(embedded)) {
			out.List = append(out.List, kept)
		} else {
			hidden = true
		}
	}
	if hidden {
		out.List = append(out.List, &ast.Field{Type: ast.NewIdent("unexported_" + what)})
	}
	return out
}

// text returns the source of a node.
func text(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return b.String()
}

var (
	semicolons = regexp.MustCompile(`\s*\n\s*(;\s*)?|\s*;\s*`)
	braces     = strings.NewReplacer(" {; ", "{", " { ", "{", " {", "{", "{; ", "{", "; }", "}", " }", "}")
)

// normalise makes one line of a declaration.
func normalise(s string) string {
	s = semicolons.ReplaceAllString(strings.ReplaceAll(s, "unexported_", "unexported "), "; ")
	return braces.Replace(strings.Join(strings.Fields(s), " "))
}

// TestNoInternalTypes: no public function takes or returns a type of an internal package, which its callers cannot name.
func TestNoInternalTypes(t *testing.T) {
	internal := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(filepath.ToSlash(path), "/internal/") {
			internal[d.Name()] = true
		}
		return err
	})
	if err != nil || !internal["core"] || !internal["ib"] {
		t.Fatalf("%v; found %v", err, internal)
	}
	declarations, err := api(root)
	if err != nil {
		t.Fatal(err)
	}
	qualified := regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)
	functions := 0
	for _, d := range declarations {
		if !strings.Contains(d, ": func ") {
			continue
		}
		functions++
		for _, m := range qualified.FindAllStringSubmatch(d, -1) {
			if internal[m[1]] {
				t.Errorf("%s: %s is an internal package", d, m[1])
			}
		}
	}
	if functions < 500 {
		t.Errorf("only %d functions were found", functions)
	}
}
