package archtest

import (
	"go/ast"
	"strings"
)

// checkSeeds reports where tests draw random numbers that are different in each run: from the source of package math/rand itself.
func checkSeeds(t *tree) (vs []violation) {
	for f := range t.testFiles("internal/soaktest") {
		for n := range f.draws {
			vs = append(vs, violation{pos: t.pos(n), problem: "draws a random number that is another one in each run",
				fix: "use a generator with a constant seed, or with that of soaktest.Seed"})
		}
	}
	return vs
}

// draws yields each call of a function of package math/rand that makes no generator.
func (f *file) draws(yield func(ast.Node) bool) {
	names := map[string]bool{}
	for im, path := range f.imports {
		switch {
		case path != "math/rand" && path != "math/rand/v2":
		case im.Name != nil:
			names[im.Name.Name] = true
		default:
			names["rand"] = true
		}
	}
	more := true
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !more {
			return more
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && !strings.HasPrefix(s.Sel.Name, "New") {
			if x, ok := s.X.(*ast.Ident); ok && names[x.Name] {
				more = yield(n)
			}
		}
		return more
	})
}
