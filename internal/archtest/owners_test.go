package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// minLines is the length from which a package below internal/ may have one importer only.
const minLines = 125

// checkOwners reports small packages below internal/ that one package imports: they could be a file of it. Tests count as a part
// of the package in their folder.
func checkOwners(t *tree) []violation {
	importers := map[string][]string{}
	for _, p := range t.pkgs {
		for _, f := range p.files {
			for _, imported := range f.imports {
				if dir, ok := moduleDir(imported); ok && dir != p.dir && !slices.Contains(importers[dir], p.dir) {
					importers[dir] = append(importers[dir], p.dir)
				}
			}
		}
	}
	var vs []violation
	for _, p := range t.pkgs {
		n := p.lines()
		if of := importers[p.dir]; len(of) == 1 && n > 0 && n < minLines && strings.Contains("/"+p.dir+"/", "/internal/") {
			vs = append(vs, violation{pos: p.dir, key: p.dir,
				problem: fmt.Sprintf("%d lines, which only %s imports", n, of[0]),
				fix:     "move the code there, or give the reason for a package in internal/archtest/exceptions.txt"})
		}
	}
	return vs
}

// lines returns how many lines the package has without its tests.
func (p *pkg) lines() int {
	n := 0
	for _, f := range append(p.sources(), p.asm...) {
		n += strings.Count(f.src, "\n")
	}
	return n
}
