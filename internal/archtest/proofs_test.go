package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// proof is one line of proofs.txt: the tests of a package that prove a property of some of its functions.
type proof struct {
	kind  string // "decode", "fuzz" or "hot"
	dir   string
	tests []string // names of test or fuzz functions
	funcs []string // functions or methods as funcName returns them; for "hot" the names of the calls, without receiver
}

var proofKinds = []string{"decode", "fuzz", "hot"}

// parseProofs reads lines of the form "kind package: tests: functions".
func parseProofs(text string) ([]proof, []violation) {
	var ps []proof
	var vs []violation
	for line := range lines(text) {
		part := strings.Split(line, ":")
		head := strings.Fields(part[0])
		if len(part) != 3 || len(head) != 2 || !slices.Contains(proofKinds, head[0]) {
			vs = append(vs, proofViolation(line, "is not a valid line", "use the format that the head of the file describes"))
			continue
		}
		ps = append(ps, proof{kind: head[0], dir: head[1], tests: splitNames(part[1]), funcs: splitNames(part[2])})
	}
	return ps, vs
}

func proofViolation(line, problem, fix string) violation {
	return violation{pos: "internal/archtest/proofs.txt", problem: fmt.Sprintf("%q %s", line, problem), fix: fix}
}

// violation returns a violation of the line.
func (p proof) violation(problem, fix string) violation {
	return proofViolation(p.kind+" "+p.dir, problem, fix)
}

// noSuchPackage is the violation of a line whose package does not exist.
func (p proof) noSuchPackage() violation {
	return p.violation("is of a package that does not exist", "delete the line, or rename the package in it")
}

// noSuchTest is the violation of a line whose test does not exist.
func (p proof) noSuchTest(name string) violation {
	return p.violation("names "+name+", which is not a test of the package", "write the test, or correct its name")
}

// decoderName matches the names of functions that decode bytes from outside the process.
var decoderName = regexp.MustCompile(`^(?i:decode|unmarshal|parse)`)

// checkDecoders compares proofs.txt with the code in both directions: every package, test and function that the file names must
// exist, and every decoder and every fuzz target must be named in it.
func checkDecoders(t *tree, text string) []violation {
	ps, vs := parseProofs(text)
	listed := map[string]bool{} // "dir:name" of decoders and fuzz targets
	for _, pr := range ps {
		if pr.kind == "hot" {
			continue
		}
		p := t.find(pr.dir)
		if p == nil {
			vs = append(vs, pr.noSuchPackage())
			continue
		}
		vs = append(vs, p.checkDecodeLine(pr)...)
		for _, n := range append(pr.tests, pr.funcs...) {
			listed[pr.dir+":"+n] = true
		}
	}
	for _, p := range t.pkgs {
		vs = append(vs, t.checkUnlisted(p, listed)...)
	}
	return vs
}

func (p *pkg) checkDecodeLine(pr proof) []violation {
	var vs []violation
	for _, n := range pr.funcs {
		if findFunc(p.sources(), n) == nil {
			vs = append(vs, pr.violation("names "+n+", which the package does not have",
				"delete the name, or rename it as the function was renamed"))
		}
	}
	fuzz, prefix := "", ""
	for _, n := range pr.tests {
		if findFunc(p.tests(), n) == nil {
			vs = append(vs, pr.noSuchTest(n))
		}
		if strings.HasPrefix(n, "Fuzz") {
			fuzz = n
		} else {
			prefix = n
		}
	}
	if fuzz == "" {
		vs = append(vs, pr.violation("names no fuzz target", "write one and name it"))
	}
	if prefix == "" && pr.kind == "decode" {
		vs = append(vs, pr.violation("names no test of all strict prefixes", "write one and name it"))
	}
	return vs
}

// checkUnlisted reports decoders and fuzz targets that proofs.txt does not name.
func (t *tree) checkUnlisted(p *pkg, listed map[string]bool) []violation {
	var vs []violation
	for _, f := range p.files {
		for fn := range f.funcs {
			decoder := !f.test && decoderName.MatchString(fn.Name.Name) && takesBytes(fn)
			fuzz := f.test && strings.HasPrefix(fn.Name.Name, "Fuzz")
			if (decoder || fuzz) && !listed[p.dir+":"+funcName(fn)] {
				vs = append(vs, violation{pos: t.pos(fn), problem: funcName(fn) + " is not in internal/archtest/proofs.txt",
					fix: "add a line with the decoder, its fuzz target, and the test that passes it every strict prefix of valid input"})
			}
		}
	}
	return vs
}

// takesBytes reports whether a parameter is a []byte or an io.Reader.
func takesBytes(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(f *ast.Field) bool {
		switch x := f.Type.(type) {
		case *ast.ArrayType:
			id, ok := x.Elt.(*ast.Ident)
			return ok && x.Len == nil && id.Name == "byte"
		case *ast.SelectorExpr:
			id, ok := x.X.(*ast.Ident)
			return ok && id.Name == "io" && x.Sel.Name == "Reader"
		}
		return false
	})
}

// hotPackages are the packages that handle every message. Each has an allocation test of its own; the transports share the
// one of the suite.
var hotPackages = []string{"internal/shm", "fabric/fabrictest", "mpi/internal/match", "mpi/internal/coll", "mpi"}

// checkHot requires that each hot package has an allocation test in proofs.txt, that each test on a "hot" line exists, counts
// allocations and makes the calls that the line names, and that allocations are counted by alloctest.Count.
func checkHot(t *tree, text string) []violation {
	ps, vs := parseProofs(text)
	vs = append(vs, t.checkCounts()...)
	for _, dir := range hotPackages {
		listed := slices.ContainsFunc(ps, func(pr proof) bool { return pr.kind == "hot" && pr.dir == dir })
		if t.find(dir) != nil && !listed {
			vs = append(vs, violation{pos: dir, problem: "has no allocation test in internal/archtest/proofs.txt",
				fix: "count the allocations of its hot calls with alloctest.Count, and add a line"})
		}
	}
	for _, pr := range ps {
		if pr.kind != "hot" {
			continue
		}
		p := t.find(pr.dir)
		if p == nil {
			vs = append(vs, pr.noSuchPackage())
			continue
		}
		vs = append(vs, t.checkCallNames(pr)...)
		for _, n := range pr.tests {
			vs = append(vs, p.checkHotTest(pr, n)...)
		}
	}
	return vs
}

func (p *pkg) checkHotTest(pr proof, name string) []violation {
	in := p.tests()
	if findFunc(in, name) == nil {
		in = p.sources() // a package may be a suite of tests, as fabrictest is
	}
	fn := findFunc(in, name)
	if fn == nil {
		return []violation{pr.noSuchTest(name)}
	}
	reached := reachable(in, fn)
	if !slices.ContainsFunc(reached, func(n ast.Node) bool { return selected(n, "alloctest", "Count") != nil }) {
		return []violation{pr.violation("names "+name+", which counts no allocations", "count them with alloctest.Count")}
	}
	var vs []violation
	for _, call := range pr.funcs {
		if !usesAny(reached, call) {
			vs = append(vs, pr.violation("names "+call+", which "+name+" does not call",
				"call it in the test, or delete the name"))
		}
	}
	return vs
}

// checkCounts reports the files that count allocations by testing.AllocsPerRun. Only internal/alloctest does.
func (t *tree) checkCounts() []violation {
	var vs []violation
	for _, p := range t.pkgs {
		if p.dir == "internal/alloctest" {
			continue
		}
		for _, f := range p.files {
			if n := selected(f.syntax, "testing", "AllocsPerRun"); n != nil {
				vs = append(vs, violation{pos: t.pos(n),
					problem: "a single count by testing.AllocsPerRun: it fails by chance if another goroutine allocates meanwhile",
					fix:     "use alloctest.Count; a partner makes alloctest.Calls calls"})
			}
		}
	}
	return vs
}

// checkCallNames reports calls of a "hot" line that are not declared in any package, such as functions that were renamed.
func (t *tree) checkCallNames(pr proof) []violation {
	var vs []violation
	for _, call := range pr.funcs {
		if !slices.ContainsFunc(t.pkgs, func(p *pkg) bool { return p.declares(call) }) {
			vs = append(vs, pr.violation("names "+call+", which no package declares",
				"delete the name, or rename it as the function was renamed"))
		}
	}
	return vs
}

// declares reports whether the package has a function, a method, or a field or method of a type with this name.
func (p *pkg) declares(name string) bool {
	found := false
	for _, f := range p.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found = found || n.Name.Name == name
				return false
			case *ast.InterfaceType:
				found = found || names(n.Methods, name)
			case *ast.StructType:
				found = found || names(n.Fields, name)
			}
			return !found
		})
	}
	return found
}

// names reports whether a list of fields or methods has one with this name.
func names(list *ast.FieldList, name string) bool {
	return slices.ContainsFunc(list.List, func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return id.Name == name })
	})
}

// reachable returns the function, and the functions and package-level variables of the given files that it uses, directly or
// through others.
func reachable(fs []*file, fn *ast.FuncDecl) []ast.Node {
	in := []ast.Node{fn}
	for i := 0; i < len(in); i++ {
		for _, f := range fs {
			for name, n := range f.declarations {
				if !slices.Contains(in, n) && uses(in[i], name) {
					in = append(in, n)
				}
			}
		}
	}
	return in
}

// declarations yields every function and every package-level variable of a file.
func (f *file) declarations(yield func(string, ast.Node) bool) {
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !yield(d.Name.Name, d) {
				return
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && !yield(v.Names[0].Name, v) {
					return
				}
			}
		}
	}
}

func usesAny(ns []ast.Node, name string) bool {
	return slices.ContainsFunc(ns, func(n ast.Node) bool { return uses(n, name) })
}

func findFunc(fs []*file, name string) *ast.FuncDecl {
	for _, f := range fs {
		for fn := range f.funcs {
			if funcName(fn) == name {
				return fn
			}
		}
	}
	return nil
}

// checkTransports requires a call of fabrictest.Run in the tests of every package that opens a domain.
func checkTransports(t *tree) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		if path.Dir(p.dir) != "fabric" || p.dir == "fabric/fabrictest" {
			continue
		}
		for _, f := range p.sources() {
			for fn := range f.funcs {
				if fn.Recv != nil && fn.Name.Name == "Open" && returnsDomain(fn) && !p.runsSuite() {
					vs = append(vs, violation{pos: t.pos(fn), problem: p.dir + " opens a domain, but no test of it calls fabrictest.Run",
						fix: "run the suite on it: func TestFabric(t *testing.T) { fabrictest.Run(t, open) }"})
				}
			}
		}
	}
	return vs
}

func returnsDomain(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil || len(fn.Type.Results.List) == 0 {
		return false
	}
	s, ok := fn.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Domain"
}

func (p *pkg) runsSuite() bool {
	return slices.ContainsFunc(p.tests(), func(f *file) bool { return selected(f.syntax, "fabrictest", "Run") != nil })
}

// selected returns the first use of a name of a package, such as fabrictest.Run, or nil.
func selected(in ast.Node, pkg, name string) ast.Node {
	var found ast.Node
	ast.Inspect(in, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && found == nil && s.Sel.Name == name {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				found = s
			}
		}
		return found == nil
	})
	return found
}
