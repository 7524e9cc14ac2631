package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goName matches a name of package verbs in docs/verbs.md: CQ, or CQ.Poll for a method or field. Names of C have an underscore
// or begin with a lower-case letter; errno values are upper-case letters after an E.
var (
	goName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[A-Z][A-Za-z0-9]*)?$`)
	errno  = regexp.MustCompile("^E[A-Z]+$")
	span   = regexp.MustCompile("`([^`\n]+)`")
)

// TestVerbsDocument compares docs/verbs.md with package verbs: every name in it exists, and it contains every function and
// method.
func TestVerbsDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/verbs.md")
	if err != nil {
		t.Fatal(err)
	}
	exist, calls := verbsNames(t)
	named := map[string]bool{}
	for _, s := range span.FindAllStringSubmatch(string(text), -1) {
		name := s[1]
		if !goName.MatchString(name) || errno.MatchString(name) {
			continue
		}
		named[name] = true
		if !exist[name] {
			t.Errorf("docs/verbs.md names %s, which package verbs does not have", name)
		}
	}
	if len(named) < 100 {
		t.Errorf("only %d names of package verbs were found in docs/verbs.md", len(named))
	}
	for _, c := range calls {
		if !named[c] {
			t.Errorf("docs/verbs.md does not name %s", c)
		}
	}
}

// verbsNames returns the exported names of package verbs, with methods and fields as Type.Name, and the calls among them, which
// the document must contain.
func verbsNames(t *testing.T) (exist map[string]bool, calls []string) {
	exist = map[string]bool{}
	entries, err := os.ReadDir("../../verbs")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), "../../verbs/"+e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := receiver(d) + d.Name.Name
				exist[name] = true
				if ast.IsExported(d.Name.Name) && ast.IsExported(name) && mustDocument(name) {
					calls = append(calls, name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addNames(exist, s)
				}
			}
		}
	}
	return exist, calls
}

// receiver returns the type of a method and a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	x := d.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	return x.(*ast.Ident).Name + "."
}

// mustDocument reports whether the document must contain a call. It need not contain common methods.
func mustDocument(name string) bool {
	usual := []string{".String", ".Error", ".Unwrap", ".Bytes"}
	return !slices.ContainsFunc(usual, func(method string) bool { return strings.HasSuffix(name, method) })
}

// addNames adds the names of a declaration, and the fields if it is a struct.
func addNames(exist map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			exist[n.Name] = true
		}
	case *ast.TypeSpec:
		exist[s.Name.Name] = true
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					exist[s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}
