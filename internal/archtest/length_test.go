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

func checkLength(t *tree) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		for _, f := range append(p.files, p.asm...) {
			if f.generated() {
				continue
			}
			if n := strings.Count(f.src, "\n"); n > maxFileLines {
				bs = append(bs, breach{at: f.path + ":1", key: f.path,
					what: fmt.Sprintf("%d lines; a file has at most %d", n, maxFileLines),
					mend: "split it by subject; if that cannot be, give the reason in internal/archtest/exceptions.txt"})
			}
			if f.syntax != nil {
				bs = append(bs, t.checkFuncLength(f)...)
			}
		}
	}
	return bs
}

func (t *tree) checkFuncLength(f *file) []breach {
	var bs []breach
	for fn := range f.funcs {
		n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
		if n > maxFuncLines {
			bs = append(bs, breach{at: t.at(fn), key: f.path + ":" + funcName(fn),
				what: fmt.Sprintf("%s has %d lines; a function has at most %d", funcName(fn), n, maxFuncLines),
				mend: "split it; if that cannot be, give the reason in internal/archtest/exceptions.txt"})
		}
	}
	return bs
}

func (f *file) generated() bool { return f.syntax != nil && ast.IsGenerated(f.syntax) }
