package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

const (
	maxFiles = 15 // a package with more files is checked
	maxBack  = 25 // percent of its arrows
)

// arrows has an arrow from each file of a package to the files that declare what it uses: by file, then by file.
type arrows map[string]map[string]bool

// checkLarge reports the large packages in which too many arrows run back up.
func checkLarge(t *tree) []violation {
	large := t.large()
	find, err := t.exported(large)
	if err != nil {
		return []violation{{pos: ".", problem: err.Error(), fix: "make every package compile: go build ./..."}}
	}
	return checkArrows(t, large, find)
}

// checkArrows reports the packages in which too many arrows run back up. Files are in an order in which few arrows do: who reads
// them in this order meets a use before its declaration, from the purpose to the means. An arrow back is a detail that one has
// to know earlier. find returns the types of an imported package.
func checkArrows(t *tree, pkgs []*pkg, find types.Importer) []violation {
	var vs []violation
	for _, p := range pkgs {
		a, err := t.arrows(p, find)
		if err != nil {
			vs = append(vs, violation{pos: p.dir, problem: err.Error(), fix: "make the package compile: go vet ./" + p.dir})
			continue
		}
		order, total, back := a.count()
		t.logf("%s: %d files, %d arrows, %d back: %s\n\t%s", p.dir, len(order), total, len(back), strings.Join(back, ", "),
			strings.Join(order, " "))
		if 100*len(back) > maxBack*total {
			vs = append(vs, violation{pos: p.dir, key: p.dir + ":arrows",
				problem: fmt.Sprintf("%d of %d arrows between files run back up, %d %% may: %s", len(back), total, maxBack,
					strings.Join(back, ", ")),
				fix: "move declarations to the files that use them, or a subject into a package of its own"})
		}
	}
	return vs
}

// large returns the packages that rule 13 checks.
func (t *tree) large() []*pkg {
	return slices.DeleteFunc(slices.Clone(t.pkgs), func(p *pkg) bool { return len(p.built()) <= maxFiles })
}

// built returns the files of a package that this machine builds, without tests.
func (p *pkg) built() []*file {
	sources := p.sources()
	ctx := build.Default
	ctx.OpenFile = func(name string) (io.ReadCloser, error) {
		for _, f := range sources {
			if f.path == name {
				return io.NopCloser(strings.NewReader(f.src)), nil
			}
		}
		return nil, os.ErrNotExist
	}
	return slices.DeleteFunc(sources, func(f *file) bool {
		match, err := ctx.MatchFile(path.Split(f.path))
		return err != nil || !match
	})
}

// arrows finds what the files of a package use of each other. Types, functions, methods, fields, and variables and constants of
// the package count.
func (t *tree) arrows(p *pkg, find types.Importer) (arrows, error) {
	var files []*ast.File
	for _, f := range p.built() {
		files = append(files, f.syntax)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: find}).Check(p.dir, t.fset, files, &info)
	if err != nil {
		return nil, err
	}
	a := arrows{}
	name := func(pos token.Pos) string { return path.Base(t.fset.Position(pos).Filename) }
	for _, f := range files {
		a[name(f.Pos())] = map[string]bool{}
	}
	for id, o := range info.Uses {
		if from, to := name(id.Pos()), name(o.Pos()); o.Pkg() == checked && from != to && !isLocal(o, checked.Scope()) {
			a[from][to] = true
		}
	}
	return a, nil
}

// isLocal reports whether an object is declared in a function. Fields and methods have no scope.
func isLocal(o types.Object, scope *types.Scope) bool {
	return o.Parent() != nil && o.Parent() != scope
}

// count returns the files in order, the number of arrows, and those that run back up, as text.
func (a arrows) count() (order []string, total int, back []string) {
	order = a.order()
	for i, from := range order {
		total += len(a[from])
		for _, to := range order[:i] {
			if a[from][to] {
				back = append(back, from+" to "+to)
			}
		}
	}
	return order, total, back
}

// order returns the files in an order in which few arrows run back up. Only arrows within a strongly connected component can.
func (a arrows) order() []string {
	var order []string
	for _, component := range slices.Backward(a.components()) {
		order = append(order, a.arrange(component)...)
	}
	return order
}

// components returns the strongly connected components, each after those to which its arrows point (Tarjan, 1972).
func (a arrows) components() [][]string {
	var (
		found   [][]string
		stack   []string
		numbers = map[string]int{} // in the order of the visits, from 1 on
		visit   func(from string) int
	)
	// visit returns the lowest number on the stack that can be reached from a file.
	visit = func(from string) int {
		number := len(numbers) + 1
		numbers[from] = number
		stack = append(stack, from)
		lowest := number
		for _, to := range slices.Sorted(maps.Keys(a[from])) {
			switch {
			case numbers[to] == 0:
				lowest = min(lowest, visit(to))
			case slices.Contains(stack, to):
				lowest = min(lowest, numbers[to])
			}
		}
		if lowest == number {
			i := slices.Index(stack, from)
			found = append(found, slices.Clone(stack[i:]))
			stack = stack[:i]
		}
		return lowest
	}
	for _, from := range slices.Sorted(maps.Keys(a)) {
		if numbers[from] == 0 {
			visit(from)
		}
	}
	return found
}

// arrange orders the files of a component (Eades, Lin and Smyth, 1993): those without arrows to the others come last, those to
// which no arrow points come first; if there are neither, the one that has the most arrows more than point to it is next.
func (a arrows) arrange(files []string) []string {
	var first, last []string
	rest := slices.Sorted(slices.Values(files))
	for len(rest) > 0 {
		next, most := 0, math.MinInt
		for i, f := range rest {
			out, in := a.degrees(f, rest)
			if out == 0 {
				next, most = i, math.MinInt
				break
			}
			if in == 0 {
				out = math.MaxInt
			}
			if out-in > most {
				next, most = i, out-in
			}
		}
		if most == math.MinInt {
			last = append(last, rest[next])
		} else {
			first = append(first, rest[next])
		}
		rest = slices.Delete(rest, next, next+1)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// degrees returns how many arrows a file has to others, and they to it.
func (a arrows) degrees(f string, others []string) (out, in int) {
	for _, o := range others {
		if a[f][o] {
			out++
		}
		if a[o][f] {
			in++
		}
	}
	return out, in
}

// exported returns an importer of what some packages import. The compiler has written their types into the cache of builds.
func (t *tree) exported(pkgs []*pkg) (types.Importer, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, p := range pkgs {
		args = append(args, module+"/"+p.dir)
	}
	cmd := exec.Command("go", args...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, problems.Bytes())
	}
	files := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		files[p.ImportPath] = p.Export
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
	return importer.ForCompiler(t.fset, "gc", open), nil
}
