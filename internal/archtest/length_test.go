package archtest

import (
	"fmt"
	"go/ast"
	"strings"
)

const (
	maxFuncLines = 70
	maxFileLines = 600
)

func checkLength(t *tree) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		for _, f := range append(p.files, p.asm...) {
			if f.generated() {
				continue
			}
			if n := strings.Count(f.src, "\n"); n > maxFileLines {
				vs = append(vs, violation{pos: f.path + ":1", key: f.path,
					problem: fmt.Sprintf("%d lines; a file has at most %d", n, maxFileLines),
					fix:     "split it by subject; if that is impossible, give the reason in internal/archtest/exceptions.txt"})
			}
			if f.syntax != nil {
				vs = append(vs, t.checkFuncLength(f)...)
			}
		}
	}
	return vs
}

func (t *tree) checkFuncLength(f *file) []violation {
	var vs []violation
	for fn := range f.funcs {
		n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
		if n > maxFuncLines {
			vs = append(vs, violation{pos: t.pos(fn), key: f.path + ":" + funcName(fn),
				problem: fmt.Sprintf("%s has %d lines; a function has at most %d", funcName(fn), n, maxFuncLines),
				fix:     "split it; if that is impossible, give the reason in internal/archtest/exceptions.txt"})
		}
	}
	return vs
}

func (f *file) generated() bool { return f.syntax != nil && ast.IsGenerated(f.syntax) }
