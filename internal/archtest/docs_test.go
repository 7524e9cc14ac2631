package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

// section matches the section of the standard in a doc comment, or the statement that there is none.
var section = regexp.MustCompile(`MPI-5\.0 §\d+(\.\d+)*|not in MPI-5\.0|Not in MPI-5\.0`)

// commonMethods are methods of interfaces of the Go library; the standard has no section for them.
var commonMethods = []string{"Error", "Is", "Unwrap", "String", "GoString", "Format"}

const docFix = "document its purpose: units, shapes, ownership, which goroutines may call it, errors"

func checkDocs(t *tree) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		src := p.sources()
		if len(src) == 0 {
			continue
		}
		if !slices.ContainsFunc(src, func(f *file) bool { return f.syntax.Doc != nil }) {
			vs = append(vs, violation{pos: src[0].path + ":1", problem: "package " + p.name + " has no package comment",
				fix: "write doc.go: what the package is for, how it works, and the shortest program that uses it"})
		}
		for _, f := range src {
			for _, d := range f.syntax.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					vs = append(vs, t.checkFuncDoc(p, d)...)
				case *ast.GenDecl:
					vs = append(vs, t.checkGenDoc(d)...)
				}
			}
		}
	}
	return vs
}

func (t *tree) checkFuncDoc(p *pkg, fn *ast.FuncDecl) []violation {
	name := funcName(fn)
	if !fn.Name.IsExported() || fn.Recv != nil && !ast.IsExported(receiver(fn)) {
		return nil
	}
	if fn.Doc.Text() == "" {
		return []violation{{pos: t.pos(fn), problem: name + " has no doc comment", fix: docFix}}
	}
	if p.dir == "mpi" && !slices.Contains(commonMethods, fn.Name.Name) && !section.MatchString(fn.Doc.Text()) {
		return []violation{{pos: t.pos(fn), problem: name + " does not name its section of the standard",
			fix: `end its comment with the section, as in "MPI-5.0 §3.2.4.", or with "Not in MPI-5.0."`}}
	}
	return nil
}

// checkGenDoc requires a comment on every type, and on every group of constants or variables or on each of its lines.
func (t *tree) checkGenDoc(d *ast.GenDecl) []violation {
	var vs []violation
	group := d.Doc.Text() != ""
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			if s.Doc.Text() == "" && (!group || d.Lparen.IsValid()) {
				vs = append(vs, violation{pos: t.pos(s), problem: s.Name.Name + " has no doc comment", fix: docFix})
			}
			vs = append(vs, t.checkMethodDocs(s)...)
		case *ast.ValueSpec:
			i := slices.IndexFunc(s.Names, func(n *ast.Ident) bool { return n.IsExported() })
			if i >= 0 && !group && s.Doc.Text() == "" && s.Comment.Text() == "" {
				kind := map[token.Token]string{token.CONST: "constant", token.VAR: "variable"}[d.Tok]
				vs = append(vs, violation{pos: t.pos(s), problem: fmt.Sprintf("%s %s has no doc comment", kind, s.Names[i].Name),
					fix: "comment it, or the group that it is in"})
			}
		}
	}
	return vs
}

// checkMethodDocs requires a comment on every method of an exported interface.
func (t *tree) checkMethodDocs(s *ast.TypeSpec) []violation {
	iface, ok := s.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var vs []violation
	for _, m := range iface.Methods.List {
		if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc.Text() == "" && m.Comment.Text() == "" {
			vs = append(vs, violation{pos: t.pos(m), problem: s.Name.Name + "." + m.Names[0].Name + " has no doc comment", fix: docFix})
		}
	}
	return vs
}
