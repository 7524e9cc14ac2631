package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

const module = "github.com/ibrun/ibrun"

// tree is the source of the module, parsed once. It has the files of every system and architecture, so the rules also apply to
// files that this machine does not build.
type tree struct {
	fset *token.FileSet
	pkgs []*pkg                           // sorted by dir
	logf func(format string, args ...any) // prints what a rule has measured
}

// pkg is one folder with Go files.
type pkg struct {
	dir   string // slash-separated, from the root of the module
	name  string
	files []*file
	asm   []*file
}

// file is one source file; syntax is nil for assembly.
type file struct {
	path   string
	src    string
	syntax *ast.File
	test   bool
}

// load reads all packages of the module whose root is fsys.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), logf: func(string, ...any) {}}
	byDir := map[string]*pkg{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(fsys, name)
		}
		ext := path.Ext(name)
		if ext != ".go" && ext != ".s" {
			return nil
		}
		f, err := t.parse(fsys, name)
		if err != nil {
			return err
		}
		p := byDir[path.Dir(name)]
		if p == nil {
			p = &pkg{dir: path.Dir(name)}
			byDir[p.dir] = p
		}
		p.add(f)
		return nil
	})
	t.pkgs = slices.SortedFunc(maps.Values(byDir), func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	return t, err
}

// skipDir returns fs.SkipDir for the folders that the go tool leaves out of ./... as well.
func skipDir(fsys fs.FS, name string) error {
	base := path.Base(name)
	if name == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (t *tree) parse(fsys fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	f := &file{path: name, src: string(src), test: strings.HasSuffix(name, "_test.go")}
	if path.Ext(name) == ".go" {
		f.syntax, err = parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	}
	return f, err
}

func (p *pkg) add(f *file) {
	if f.syntax == nil {
		p.asm = append(p.asm, f)
		return
	}
	p.files = append(p.files, f)
	if !f.test {
		p.name = f.syntax.Name.Name
	}
}

// sources returns the files that are not tests.
func (p *pkg) sources() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
}

// tests returns the test files.
func (p *pkg) tests() []*file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return !f.test })
}

// testFiles yields the files of tests, and those that belong to tests. It leaves out the package in a folder.
func (t *tree) testFiles(without string) iter.Seq[*file] {
	return func(yield func(*file) bool) {
		for _, p := range t.pkgs {
			for _, f := range p.files {
				if p.dir != without && (f.test || f.forTests()) && !yield(f) {
					return
				}
			}
		}
	}
}

// find returns the package in a folder, or nil.
func (t *tree) find(dir string) *pkg {
	for _, p := range t.pkgs {
		if p.dir == dir {
			return p
		}
	}
	return nil
}

// pos returns the position of a node as file:line.
func (t *tree) pos(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// funcs yields every function declaration of a file.
func (f *file) funcs(yield func(*ast.FuncDecl) bool) {
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && !yield(fn) {
			return
		}
	}
}

// imports yields the imports of a file with their paths.
func (f *file) imports(yield func(*ast.ImportSpec, string) bool) {
	for _, im := range f.syntax.Imports {
		if !yield(im, strings.Trim(im.Path.Value, `"`)) {
			return
		}
	}
}

// funcName returns the name of a function, with its receiver's type before it: "Domain.Poll".
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn) + "." + fn.Name.Name
}

// receiver returns the name of a method's type, or "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
