package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

// section is how a doc comment names its place in the standard, or says that it has none.
var section = regexp.MustCompile(`MPI-5\.0 §\d+(\.\d+)*|not in MPI-5\.0|Not in MPI-5\.0`)

// plain are methods that any Go value has; they have no section in the standard.
var plain = []string{"Error", "Is", "Unwrap", "String", "GoString", "Format"}

const docMend = "say what it is for: units, shapes, ownership, who may call it concurrently, errors"

func checkDocs(t *tree) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		src := p.sources()
		if len(src) == 0 {
			continue
		}
		if !slices.ContainsFunc(src, func(f *file) bool { return f.syntax.Doc != nil }) {
			bs = append(bs, breach{at: src[0].path + ":1", what: "package " + p.name + " has no package comment",
				mend: "write doc.go: the package's story, and the shortest program that uses it"})
		}
		for _, f := range src {
			for _, d := range f.syntax.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					bs = append(bs, t.checkFuncDoc(p, d)...)
				case *ast.GenDecl:
					bs = append(bs, t.checkGenDoc(d)...)
				}
			}
		}
	}
	return bs
}

func (t *tree) checkFuncDoc(p *pkg, fn *ast.FuncDecl) []breach {
	name := funcName(fn)
	if !fn.Name.IsExported() || fn.Recv != nil && !ast.IsExported(receiver(fn)) {
		return nil
	}
	if fn.Doc.Text() == "" {
		return []breach{{at: t.at(fn), what: name + " has no doc comment", mend: docMend}}
	}
	if p.dir == "mpi" && !slices.Contains(plain, fn.Name.Name) && !section.MatchString(fn.Doc.Text()) {
		return []breach{{at: t.at(fn), what: name + " does not name its section of the standard",
			mend: `end its comment with the section, as in "MPI-5.0 §3.2.4.", or with "Not in MPI-5.0."`}}
	}
	return nil
}

// checkGenDoc wants a comment on every type, and on every group of constants or variables or each of its lines.
func (t *tree) checkGenDoc(d *ast.GenDecl) []breach {
	var bs []breach
	group := d.Doc.Text() != ""
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			if s.Doc.Text() == "" && (!group || d.Lparen.IsValid()) {
				bs = append(bs, breach{at: t.at(s), what: s.Name.Name + " has no doc comment", mend: docMend})
			}
			bs = append(bs, t.checkMethodDocs(s)...)
		case *ast.ValueSpec:
			i := slices.IndexFunc(s.Names, func(n *ast.Ident) bool { return n.IsExported() })
			if i >= 0 && !group && s.Doc.Text() == "" && s.Comment.Text() == "" {
				what := map[token.Token]string{token.CONST: "constant", token.VAR: "variable"}[d.Tok]
				bs = append(bs, breach{at: t.at(s), what: fmt.Sprintf("%s %s has no doc comment", what, s.Names[i].Name),
					mend: "comment it, or the group it stands in"})
			}
		}
	}
	return bs
}

// checkMethodDocs wants a comment on every method of an exported interface.
func (t *tree) checkMethodDocs(s *ast.TypeSpec) []breach {
	in, ok := s.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var bs []breach
	for _, m := range in.Methods.List {
		if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc.Text() == "" && m.Comment.Text() == "" {
			bs = append(bs, breach{at: t.at(m), what: s.Name.Name + "." + m.Names[0].Name + " has no doc comment", mend: docMend})
		}
	}
	return bs
}
