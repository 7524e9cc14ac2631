package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// reasonLength is the minimum length, in bytes, of the comment that gives the reason for unsafe.
const reasonLength = 40

func checkUnsafe(t *tree) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		for _, f := range p.files {
			vs = append(vs, t.checkUnsafeFile(f)...)
		}
		for _, f := range p.asm {
			vs = append(vs, checkAssembly(p, f)...)
		}
	}
	return vs
}

func (t *tree) checkUnsafeFile(f *file) []violation {
	named := strings.HasSuffix(f.path, "_unsafe.go") || strings.HasSuffix(f.path, "_unsafe_test.go")
	var unsafeImport ast.Node
	for im, imported := range f.imports {
		if imported == "unsafe" {
			unsafeImport = im
		}
	}
	switch {
	case unsafeImport == nil && named:
		return []violation{{pos: f.path + ":1", problem: "the file name ends in _unsafe.go, but the file does not import unsafe",
			fix: "rename the file"}}
	case unsafeImport == nil:
		return nil
	case !named:
		return []violation{{pos: t.pos(unsafeImport), problem: "imports unsafe",
			fix: "move the code that needs it into a file named *_unsafe.go; keep that file as small as possible"}}
	case !f.beginsWithReason(unsafeImport):
		return []violation{{pos: f.path + ":1", problem: "does not begin with the reason for unsafe",
			fix: "write it in a comment before the imports: what needs unsafe, and why its use is correct"}}
	}
	return nil
}

// beginsWithReason reports whether there is a comment of sufficient length, other than a build constraint, before the import.
func (f *file) beginsWithReason(im ast.Node) bool {
	for _, c := range f.syntax.Comments {
		if c.Pos() < im.Pos() && len(c.Text()) >= reasonLength { // Text leaves out directives
			return true
		}
	}
	return false
}

var asmText = regexp.MustCompile(`(?m)^TEXT\s+·(\w+)(<>)?\(SB\)`)

// checkAssembly requires two things for each assembly function that Go can call: a version in Go, which has the same name under
// other build constraints or the name with "Go" at the end, and a test that uses the assembly function.
func checkAssembly(p *pkg, f *file) []violation {
	var vs []violation
	for _, m := range asmText.FindAllStringSubmatchIndex(f.src, -1) {
		name := f.src[m[2]:m[3]]
		if m[4] >= 0 { // <>: local to this file
			continue
		}
		pos := fmt.Sprintf("%s:%d", f.path, 1+strings.Count(f.src[:m[0]], "\n"))
		if !p.hasBody(name) && !p.hasBody(name+"Go") {
			vs = append(vs, violation{pos: pos, problem: name + " has no version in Go",
				fix: fmt.Sprintf("write func %s for other builds, or func %sGo; it defines what the assembly must compute", name, name)})
		}
		if !p.testsUse(name) {
			vs = append(vs, violation{pos: pos, problem: "no test uses " + name,
				fix: "write one that compares it with the version in Go"})
		}
	}
	return vs
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

// testsUse reports whether a test of the package uses an identifier.
func (p *pkg) testsUse(name string) bool {
	for _, f := range p.tests() {
		if uses(f.syntax, name) {
			return true
		}
	}
	return false
}

// uses reports whether an identifier occurs anywhere below a node.
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
