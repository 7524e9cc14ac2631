package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// proof is one line of proofs.txt: the tests that a package shows for some of its functions.
type proof struct {
	kind string // "decode", "fuzz" or "hot"
	dir  string
	test []string // names of test or fuzz functions
	what []string // functions or methods, as funcName gives them; for "hot" the plain names of the calls
}

var kinds = []string{"decode", "fuzz", "hot"}

// parseProofs reads lines of "kind package: tests: functions".
func parseProofs(text string) ([]proof, []breach) {
	var ps []proof
	var bs []breach
	for line := range lines(text) {
		part := strings.Split(line, ":")
		head := strings.Fields(part[0])
		if len(part) != 3 || len(head) != 2 || !slices.Contains(kinds, head[0]) {
			bs = append(bs, badProof(line, "cannot be read", "write it as the head of the file says"))
			continue
		}
		ps = append(ps, proof{kind: head[0], dir: head[1], test: names(part[1]), what: names(part[2])})
	}
	return ps, bs
}

func badProof(line, what, mend string) breach {
	return breach{at: "internal/archtest/proofs.txt", what: fmt.Sprintf("%q %s", line, what), mend: mend}
}

func (p proof) String() string { return p.kind + " " + p.dir }

// decoderName is what functions are called that take foreign bytes apart.
var decoderName = regexp.MustCompile(`^(?i:decode|unmarshal|parse)`)

// checkDecoders holds proofs.txt against the code, in both directions: what it names must be there, and every
// decoder and every fuzz target must be named.
func checkDecoders(t *tree, text string) []breach {
	ps, bs := parseProofs(text)
	listed := map[string]bool{} // "dir:name" of decoders and fuzz targets
	for _, pr := range ps {
		if pr.kind == "hot" {
			continue
		}
		p := t.find(pr.dir)
		if p == nil {
			bs = append(bs, badProof(pr.String(), "is of a package that does not exist", "delete the line"))
			continue
		}
		bs = append(bs, p.checkDecodeLine(pr)...)
		for _, n := range append(pr.test, pr.what...) {
			listed[pr.dir+":"+n] = true
		}
	}
	for _, p := range t.pkgs {
		bs = append(bs, t.checkUnlisted(p, listed)...)
	}
	return bs
}

func (p *pkg) checkDecodeLine(pr proof) []breach {
	var bs []breach
	for _, n := range pr.what {
		if findFunc(p.sources(), n) == nil {
			bs = append(bs, badProof(pr.String(), "names "+n+", which the package does not have", "name the decoder that is there now"))
		}
	}
	fuzz, prefix := "", ""
	for _, n := range pr.test {
		if findFunc(p.tests(), n) == nil {
			bs = append(bs, badProof(pr.String(), "names "+n+", which is no test of the package", "write it"))
		}
		if strings.HasPrefix(n, "Fuzz") {
			fuzz = n
		} else {
			prefix = n
		}
	}
	if fuzz == "" {
		bs = append(bs, badProof(pr.String(), "names no fuzz target", "write one and name it"))
	}
	if prefix == "" && pr.kind == "decode" {
		bs = append(bs, badProof(pr.String(), "names no test of all strict prefixes", "write one and name it"))
	}
	return bs
}

// checkUnlisted finds decoders of bytes and fuzz targets that proofs.txt does not name.
func (t *tree) checkUnlisted(p *pkg, listed map[string]bool) []breach {
	var bs []breach
	for _, f := range p.files {
		for fn := range f.funcs {
			decoder := !f.test && decoderName.MatchString(fn.Name.Name) && takesBytes(fn)
			fuzz := f.test && strings.HasPrefix(fn.Name.Name, "Fuzz")
			if (decoder || fuzz) && !listed[p.dir+":"+funcName(fn)] {
				bs = append(bs, breach{at: t.at(fn), what: funcName(fn) + " is not in internal/archtest/proofs.txt",
					mend: "add a line with the decoder, its fuzz target and the test that cuts its input short"})
			}
		}
	}
	return bs
}

// takesBytes tells whether a parameter is a []byte or an io.Reader.
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

// hotPackages are those on the way of every message. Each has an allocation test of its own; the transports share
// that of the suite.
var hotPackages = []string{"internal/shm", "fabric/fabrictest", "mpi/internal/match", "mpi/internal/coll", "mpi"}

// checkHot wants each test named in proofs.txt to count allocations and to make the calls that the line names.
func checkHot(t *tree, text string) []breach {
	ps, bs := parseProofs(text)
	for _, dir := range hotPackages {
		listed := slices.ContainsFunc(ps, func(pr proof) bool { return pr.kind == "hot" && pr.dir == dir })
		if t.find(dir) != nil && !listed {
			bs = append(bs, breach{at: dir, what: "has no allocation test in internal/archtest/proofs.txt",
				mend: "count the allocations of its hot calls with testing.AllocsPerRun, and add a line"})
		}
	}
	for _, pr := range ps {
		if pr.kind != "hot" {
			continue
		}
		p := t.find(pr.dir)
		if p == nil {
			bs = append(bs, badProof(pr.String(), "is of a package that does not exist", "delete the line"))
			continue
		}
		for _, n := range pr.test {
			bs = append(bs, p.checkHotTest(pr, n)...)
		}
	}
	return bs
}

func (p *pkg) checkHotTest(pr proof, name string) []breach {
	in := p.tests()
	if findFunc(in, name) == nil {
		in = p.sources() // a package may be a suite of tests, as fabrictest is
	}
	fn := findFunc(in, name)
	if fn == nil {
		return []breach{badProof(pr.String(), "names "+name+", which is no test of the package", "write it")}
	}
	reach := reach(in, fn)
	if !usesAny(reach, "AllocsPerRun") {
		return []breach{badProof(pr.String(), "names "+name+", which counts no allocations", "use testing.AllocsPerRun")}
	}
	var bs []breach
	for _, call := range pr.what {
		if !usesAny(reach, call) {
			bs = append(bs, badProof(pr.String(), "names "+call+", which "+name+" does not call", "call it there"))
		}
	}
	return bs
}

// reach is a function, and the functions and package-level variables of the given files that it uses, directly or
// through others.
func reach(fs []*file, fn *ast.FuncDecl) []ast.Node {
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

// declarations calls yield for every function and every package-level variable of a file.
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

// checkTransports wants a call of fabrictest.Run in the tests of every package that opens a domain.
func checkTransports(t *tree) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		if path.Dir(p.dir) != "fabric" || p.dir == "fabric/fabrictest" {
			continue
		}
		for _, f := range p.sources() {
			for fn := range f.funcs {
				if fn.Recv != nil && fn.Name.Name == "Open" && returnsDomain(fn) && !p.runsSuite() {
					bs = append(bs, breach{at: t.at(fn), what: p.dir + " opens a domain, but no test of it calls fabrictest.Run",
						mend: "run the suite on it: func TestFabric(t *testing.T) { fabrictest.Run(t, open) }"})
				}
			}
		}
	}
	return bs
}

func returnsDomain(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil || len(fn.Type.Results.List) == 0 {
		return false
	}
	s, ok := fn.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Domain"
}

func (p *pkg) runsSuite() bool {
	found := false
	for _, f := range p.tests() {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" {
				x, ok := s.X.(*ast.Ident)
				found = found || ok && x.Name == "fabrictest"
			}
			return !found
		})
	}
	return found
}
