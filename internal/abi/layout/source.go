package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"strings"
)

// source is the package that is checked.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// load reads and type-checks the package in a folder, without its tests.
func load(fsys fs.FS) (*source, error) {
	s := &source{fset: token.NewFileSet(), info: &types.Info{Defs: map[*ast.Ident]types.Object{}}}
	names, err := fs.Glob(fsys, "*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	// Bodies of functions do not matter here, and nothing outside of them may use another package.
	conf := types.Config{IgnoreFuncBodies: true, Importer: empty{}}
	_, err = conf.Check("p", s.fset, s.files, s.info)
	return s, err
}

// empty imports packages as if there were nothing in them.
type empty struct{}

func (empty) Import(what string) (*types.Package, error) {
	p := types.NewPackage(what, path.Base(what))
	p.MarkComplete()
	return p, nil
}
