package archtest

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxColumns = 130

// vagueNames are package names that do not say what the package provides.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}

// todoComment matches the marker of work to be done, with its issue number in brackets if it has one.
var todoComment = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b(\(#\d+\))?`)

func checkStyle(t *tree) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		if slices.Contains(vagueNames, p.name) {
			vs = append(vs, violation{pos: p.dir, problem: "package " + p.name + " has a name that does not say what it provides",
				fix: "name it after what it provides, or move its code to the packages that use it"})
		}
		for _, f := range append(p.files, p.asm...) {
			vs = append(vs, checkColumns(f)...)
			if f.syntax != nil {
				vs = append(vs, t.checkFormat(f)...)
				vs = append(vs, t.checkTodos(f)...)
				vs = append(vs, t.checkVerbs(f)...)
			}
		}
		vs = append(vs, t.checkState(p)...)
	}
	return vs
}

func checkColumns(f *file) []violation {
	if f.generated() {
		return nil
	}
	var vs []violation
	n := 0
	for line := range strings.Lines(f.src) {
		n++
		if c := utf8.RuneCountInString(strings.TrimRight(line, "\n")); c > maxColumns {
			vs = append(vs, violation{pos: fmt.Sprintf("%s:%d", f.path, n),
				problem: fmt.Sprintf("%d columns; a line has at most %d", c, maxColumns), fix: "break the line, or shorten it"})
		}
	}
	return vs
}

func (t *tree) checkFormat(f *file) []violation {
	got, err := format.Source([]byte(f.src))
	if err != nil || string(got) != f.src {
		return []violation{{pos: f.path + ":1", problem: "is not formatted", fix: "gofmt -w " + f.path}}
	}
	return nil
}

func (t *tree) checkTodos(f *file) []violation {
	var vs []violation
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if m := todoComment.FindStringSubmatch(c.Text); m != nil && m[2] == "" {
				vs = append(vs, violation{pos: t.pos(c), problem: m[1] + " without an issue number",
					fix: fmt.Sprintf("do it now, or open an issue and write %s(#number)", m[1])})
			}
		}
	}
	return vs
}

// indexedVerb matches a format with a verb that has an index, as in %[1]s, and a verb after it that has none.
var indexedVerb = regexp.MustCompile(`%[-+# 0-9.]*\[\d+\](?:[^%]|%%|%[-+# 0-9.]*\[)*%[-+# 0-9.*]*[a-zA-Z]`)

// checkVerbs reports formats in which a verb without an index follows one with an index: its argument is not the next one in the
// call, but the one after that of the index. Nothing else notices if that is a wrong one, or one too many.
func (t *tree) checkVerbs(f *file) []violation {
	var vs []violation
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, constant := concatenated(e)
		if constant && indexedVerb.MatchString(text) {
			vs = append(vs, violation{pos: t.pos(n), problem: "a verb without an index follows one with an index",
				fix: "write the index of each verb from there on, as in %[2]d"})
		}
		return !constant
	})
	return vs
}

// concatenated returns the text of string literals that are added.
func concatenated(e ast.Expr) (text string, ok bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			text, err := strconv.Unquote(x.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		if a, ok := concatenated(x.X); ok && x.Op == token.ADD {
			b, ok := concatenated(x.Y)
			return a + b, ok
		}
	}
	return "", false
}

// checkState reports functions named init, and package-level variables that hold state. A variable is state if its value
// changes while the program runs. Tables, errors, patterns and values that are computed once are not state.
func (t *tree) checkState(p *pkg) []violation {
	var vs []violation
	assigned := p.assigned()
	for _, f := range p.sources() {
		for fn := range f.funcs {
			if fn.Recv == nil && fn.Name.Name == "init" {
				vs = append(vs, violation{pos: t.pos(fn), key: f.path + ":init", problem: "a function named init",
					fix: "do the work where it is needed, or give the reason in internal/archtest/exceptions.txt"})
			}
		}
		for _, d := range f.syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				vs = append(vs, t.checkVar(f, g, s.(*ast.ValueSpec), assigned)...)
			}
		}
	}
	return vs
}

func (t *tree) checkVar(f *file, g *ast.GenDecl, s *ast.ValueSpec, assigned map[string]bool) []violation {
	var vs []violation
	for i, n := range s.Names {
		why := ""
		switch {
		case n.Name == "_" || hasEmbed(g.Doc) || hasEmbed(s.Doc):
		case len(s.Values) == 0:
			why = "has no initial value"
		case assigned[n.Name]:
			why = "is assigned to"
		case len(s.Values) == len(s.Names):
			why = whyState(s.Values[i])
		}
		if why != "" {
			vs = append(vs, violation{pos: t.pos(n), key: f.path + ":" + n.Name,
				problem: fmt.Sprintf("package-level variable %s %s: that is state", n.Name, why),
				fix:     "make it a field of the type that owns it, or a constant; or give the reason in internal/archtest/exceptions.txt"})
		}
	}
	return vs
}

// whyState returns why a variable with this initial value is state, or "" if it is not.
func whyState(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		return "never changes and could be a constant"
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return "points to something that can change"
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "new" || id.Name == "make") {
			return "is allocated to be filled later"
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

func hasEmbed(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed") })
}

// assigned returns the names that a function of the package, tests included, assigns to without declaring them.
func (p *pkg) assigned() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.files {
		for fn := range f.funcs {
			if fn.Body == nil {
				continue
			}
			local := localNames(fn)
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				for _, e := range changedExprs(n) {
					if name := baseName(e); name != "" && !local[name] {
						out[name] = true
					}
				}
				return true
			})
		}
	}
	return out
}

// changedExprs returns the expressions that a statement changes.
func changedExprs(n ast.Node) []ast.Expr {
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

// baseName returns the variable at the left end of an expression: x for x.f[i].
func baseName(e ast.Expr) string {
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

// localNames returns the names that a function declares anywhere: parameters, results, variables.
func localNames(fn *ast.FuncDecl) map[string]bool {
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
