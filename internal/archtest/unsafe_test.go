package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// reasonLength is the least length in bytes of the comment that says why a file is unsafe.
const reasonLength = 40

func checkUnsafe(t *tree) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		for _, f := range p.files {
			bs = append(bs, t.checkUnsafeFile(f)...)
		}
		for _, f := range p.asm {
			bs = append(bs, checkAssembly(p, f)...)
		}
	}
	return bs
}

func (t *tree) checkUnsafeFile(f *file) []breach {
	named := strings.HasSuffix(f.path, "_unsafe.go") || strings.HasSuffix(f.path, "_unsafe_test.go")
	var at ast.Node
	for im, what := range f.imports {
		if what == "unsafe" {
			at = im
		}
	}
	switch {
	case at == nil && named:
		return []breach{{at: f.path + ":1", what: "the name says unsafe, but the file does not import it",
			mend: "rename the file"}}
	case at == nil:
		return nil
	case !named:
		return []breach{{at: t.at(at), what: "imports unsafe",
			mend: "move what needs it into a file named *_unsafe.go, as small as can be"}}
	case !f.opensWithReason(at):
		return []breach{{at: f.path + ":1", what: "does not open with why it is unsafe",
			mend: "say so in a comment before the imports: what needs it, and what keeps it right"}}
	}
	return nil
}

// opensWithReason looks for a comment of some length, other than build constraints, before the given import.
func (f *file) opensWithReason(im ast.Node) bool {
	for _, c := range f.syntax.Comments {
		if c.Pos() < im.Pos() && len(c.Text()) >= reasonLength { // Text leaves out directives
			return true
		}
	}
	return false
}

var asmText = regexp.MustCompile(`(?m)^TEXT\s+·(\w+)(<>)?\(SB\)`)

// checkAssembly wants, for each function in assembly that Go can call, a Go twin with a body, of the same name
// under other build constraints or with "Go" at the end, and a test that names one of the two.
func checkAssembly(p *pkg, f *file) []breach {
	var bs []breach
	for _, m := range asmText.FindAllStringSubmatchIndex(f.src, -1) {
		name := f.src[m[2]:m[3]]
		if m[4] >= 0 { // <>: a part of another function of this file
			continue
		}
		at := fmt.Sprintf("%s:%d", f.path, 1+strings.Count(f.src[:m[0]], "\n"))
		if !p.hasBody(name) && !p.hasBody(name+"Go") {
			bs = append(bs, breach{at: at, what: name + " has no twin in Go",
				mend: fmt.Sprintf("write func %s for other builds, or func %sGo; it defines what the assembly must do", name, name)})
		}
		if !p.testNames(name) {
			bs = append(bs, breach{at: at, what: "no test names " + name,
				mend: "write one that holds it against its twin"})
		}
	}
	return bs
}

func (p *pkg) hasBody(name string) bool {
	for _, f := range p.sources() {
		for fn := range f.funcs {
			if fn.Body != nil && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// testNames tells whether a test of the package uses an identifier.
func (p *pkg) testNames(name string) bool {
	for _, f := range p.tests() {
		if uses(f.syntax, name) {
			return true
		}
	}
	return false
}

// uses tells whether an identifier stands somewhere below a node.
func uses(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}
