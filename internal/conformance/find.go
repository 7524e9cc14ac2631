package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// suite is the tests of one package that have subtests with ids.
type suite struct {
	dir   string // below the module's root: mpi
	tests []string
	nodes bool // ranks can be put on nodes of their own
}

var idLiteral = regexp.MustCompile(`^S\d-K?\d+`)

// findSuites searches the test files below a directory.
func findSuites(root string) ([]suite, error) {
	files := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (entry.Name()[0] == '.' || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		files[filepath.ToSlash(dir)] = append(files[filepath.ToSlash(dir)], f)
		return err
	})
	if err != nil {
		return nil, err
	}
	var suites []suite
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		s := suite{dir: dir, tests: testsWithIDs(files[dir])}
		for _, f := range files[dir] {
			s.nodes = s.nodes || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
				return path.Base(strings.Trim(i.Path.Value, `"`)) == "mpitest"
			})
		}
		if len(s.tests) > 0 && !isThisCommand(dir) {
			suites = append(suites, s)
		}
	}
	return suites, nil
}

// isThisCommand reports whether dir is this command, whose tests use ids as examples only.
func isThisCommand(dir string) bool { return dir == "internal/conformance" }

// testsWithIDs returns the test functions that use a string that begins with an id, directly or through functions and variables
// of the package's tests.
func testsWithIDs(files []*ast.File) []string {
	holds := map[string]bool{}    // by name of a declaration
	uses := map[string][]string{} // what else it names
	note := func(name string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				holds[name] = holds[name] || n.Kind == token.STRING && err == nil && idLiteral.MatchString(text)
			case *ast.Ident:
				uses[name] = append(uses[name], n.Name)
			}
			return true
		})
	}
	var tests []string
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				note(d.Name.Name, d)
				if d.Recv == nil && strings.HasPrefix(d.Name.Name, "Test") && d.Name.Name != "TestMain" {
					tests = append(tests, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							note(name.Name, v)
						}
					}
				}
			}
		}
	}
	tests = slices.DeleteFunc(tests, func(name string) bool { return !reaches(name, holds, uses, map[string]bool{}) })
	slices.Sort(tests)
	return slices.Compact(tests)
}

func reaches(name string, holds map[string]bool, uses map[string][]string, seen map[string]bool) bool {
	if holds[name] {
		return true
	}
	seen[name] = true
	for _, next := range uses[name] {
		if !seen[next] && reaches(next, holds, uses, seen) {
			return true
		}
	}
	return false
}
