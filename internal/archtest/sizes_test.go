package archtest

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

//go:embed sizes.txt
var sizesText string

const sizesFile = "internal/archtest/sizes.txt"

// What a type may have: who changes one method or field of it must know the others.
const (
	maxMethods = 60
	maxFields  = 30
)

// typeSize is the size of a type that has a name.
type typeSize struct {
	at              ast.Node // the declaration; nil while only methods are known
	methods, fields int
}

// checkSizes reports the types with too many methods or fields. table says which types may have how many.
func checkSizes(t *tree, table string) []violation {
	allowed, vs := parseNumbers(sizesFile, table)
	found := map[string]int{}
	for _, p := range t.pkgs {
		sizes := p.typeSizes()
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			s := sizes[name]
			for _, k := range []struct {
				kind      string
				have, max int
			}{{"methods", s.methods, maxMethods}, {"fields", s.fields, maxFields}} {
				key := p.dir + "." + name + " " + k.kind
				found[key] = k.have
				if k.have <= max(k.max, allowed.may[key]) {
					continue
				}
				vs = append(vs, violation{pos: t.pos(s.at),
					problem: fmt.Sprintf("%s has %d %s; a type has at most %d", name, k.have, k.kind, max(k.max, allowed.may[key])),
					fix:     "give a part of its state, with the methods that use it, a type of its own"})
			}
		}
	}
	return append(vs, allowed.unused(func(key string) int {
		if n := found[key]; n > maxMethods || strings.HasSuffix(key, " fields") && n > maxFields {
			return n
		}
		return 0
	})...)
}

// typeSizes returns the sizes of the types that a package declares, by name. It counts methods in the files of all systems, and a
// method that several of them declare once.
func (p *pkg) typeSizes() map[string]*typeSize {
	sizes := map[string]*typeSize{}
	size := func(name string) *typeSize {
		if sizes[name] == nil {
			sizes[name] = new(typeSize)
		}
		return sizes[name]
	}
	methods := map[string]bool{}
	for _, f := range p.sources() {
		for fn := range f.funcs {
			if name := funcName(fn); fn.Recv != nil && !methods[name] {
				methods[name] = true
				size(receiver(fn)).methods++
			}
		}
		for spec := range f.types {
			s := size(spec.Name.Name)
			s.at = spec
			if st, ok := spec.Type.(*ast.StructType); ok {
				s.fields = max(s.fields, st.Fields.NumFields())
			}
		}
	}
	maps.DeleteFunc(sizes, func(_ string, s *typeSize) bool { return s.at == nil })
	return sizes
}

// types yields the types that a file declares outside of functions.
func (f *file) types(yield func(*ast.TypeSpec) bool) {
	for _, d := range f.syntax.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok && !yield(spec) {
				return
			}
		}
	}
}
