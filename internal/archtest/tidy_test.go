package archtest

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxColumns = 130

// empty are package names that say nothing about what is inside.
var empty = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}

// note is a note to self; with an issue number in brackets behind it, it is one to all.
var note = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b(\(#\d+\))?`)

func checkTidy(t *tree) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		if slices.Contains(empty, p.name) {
			bs = append(bs, breach{at: p.dir, what: "package " + p.name + " is named after nothing",
				mend: "name it after what it provides, or move its parts to where they are used"})
		}
		for _, f := range append(p.files, p.asm...) {
			bs = append(bs, checkColumns(f)...)
			if f.syntax != nil {
				bs = append(bs, t.checkFormat(f)...)
				bs = append(bs, t.checkNotes(f)...)
			}
		}
		bs = append(bs, t.checkState(p)...)
	}
	return bs
}

func checkColumns(f *file) []breach {
	if f.generated() {
		return nil
	}
	var bs []breach
	n := 0
	for line := range strings.Lines(f.src) {
		n++
		if c := utf8.RuneCountInString(strings.TrimRight(line, "\n")); c > maxColumns {
			bs = append(bs, breach{at: fmt.Sprintf("%s:%d", f.path, n),
				what: fmt.Sprintf("%d columns; a line has at most %d", c, maxColumns), mend: "break the line, or say it shorter"})
		}
	}
	return bs
}

func (t *tree) checkFormat(f *file) []breach {
	got, err := format.Source([]byte(f.src))
	if err != nil || string(got) != f.src {
		return []breach{{at: f.path + ":1", what: "is not formatted", mend: "gofmt -w " + f.path}}
	}
	return nil
}

func (t *tree) checkNotes(f *file) []breach {
	var bs []breach
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if m := note.FindStringSubmatch(c.Text); m != nil && m[2] == "" {
				bs = append(bs, breach{at: t.at(c), what: m[1] + " without an issue number",
					mend: fmt.Sprintf("do it now, or open an issue and write %s(#number)", m[1])})
			}
		}
	}
	return bs
}

// checkState finds functions named init, and package-level variables that hold state. What a program would miss if
// it ran twice in one process is state; tables, errors, patterns and values worked out once are not.
func (t *tree) checkState(p *pkg) []breach {
	var bs []breach
	assigned := p.assigned()
	for _, f := range p.sources() {
		for fn := range f.funcs {
			if fn.Recv == nil && fn.Name.Name == "init" {
				bs = append(bs, breach{at: t.at(fn), key: f.path + ":init", what: "a function named init",
					mend: "do it where it is needed, or give the reason in internal/archtest/exceptions.txt"})
			}
		}
		for _, d := range f.syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				bs = append(bs, t.checkVar(f, g, s.(*ast.ValueSpec), assigned)...)
			}
		}
	}
	return bs
}

func (t *tree) checkVar(f *file, g *ast.GenDecl, s *ast.ValueSpec, assigned map[string]bool) []breach {
	var bs []breach
	for i, n := range s.Names {
		why := ""
		switch {
		case n.Name == "_" || embeds(g.Doc) || embeds(s.Doc):
		case len(s.Values) == 0:
			why = "has no value to begin with"
		case assigned[n.Name]:
			why = "is assigned to"
		case len(s.Values) == len(s.Names):
			why = stateful(s.Values[i])
		}
		if why != "" {
			bs = append(bs, breach{at: t.at(n), key: f.path + ":" + n.Name,
				what: fmt.Sprintf("package-level variable %s %s: that is state", n.Name, why),
				mend: "make it a field of what owns it, or a constant; or give the reason in internal/archtest/exceptions.txt"})
		}
	}
	return bs
}

// stateful says why a variable with this first value is there to be changed, or "".
func stateful(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		return "never changes and could be a constant"
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return "points to something that can change"
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "new" || id.Name == "make") {
			return "is made to be filled later"
		}
	case *ast.CompositeLit:
		if s, ok := x.Type.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") {
				return "is a " + id.Name + "." + s.Sel.Name
			}
		}
	}
	return ""
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed") })
}

// assigned collects the names that some function of the package, tests included, assigns to without having declared
// them.
func (p *pkg) assigned() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.files {
		for fn := range f.funcs {
			if fn.Body == nil {
				continue
			}
			local := declared(fn)
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				for _, e := range targets(n) {
					if name := root(e); name != "" && !local[name] {
						out[name] = true
					}
				}
				return true
			})
		}
	}
	return out
}

// targets are the expressions that a statement changes.
func targets(n ast.Node) []ast.Expr {
	switch x := n.(type) {
	case *ast.AssignStmt:
		if x.Tok != token.DEFINE {
			return x.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{x.X}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(x.Args) > 0 {
			return x.Args[:1]
		}
	}
	return nil
}

// root is the variable at the left end of an expression: x of x.f[i].
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// declared collects the names that a function declares anywhere: parameters, results, variables.
func declared(fn *ast.FuncDecl) map[string]bool {
	local := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			for _, id := range x.Names {
				local[id.Name] = true
			}
		case *ast.ValueSpec:
			for _, id := range x.Names {
				local[id.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range x.Lhs {
				if id, ok := e.(*ast.Ident); ok && x.Tok == token.DEFINE {
					local[id.Name] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{x.Key, x.Value} {
				if id, ok := e.(*ast.Ident); ok && x.Tok == token.DEFINE {
					local[id.Name] = true
				}
			}
		}
		return true
	})
	return local
}
