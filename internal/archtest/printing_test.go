package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkPrinting reports where ibrun may print something that does not pass through internal/printable: where it uses a standard
// stream, prints to one that it does not name, or writes JSON to a writer that escapes text and not JSON.
func checkPrinting(t *tree) (vs []violation) {
	for _, p := range t.pkgs {
		if p.dir != "cmd/ibrun" && !strings.HasPrefix(p.dir, "cmd/ibrun/") {
			continue
		}
		streams := p.streams()
		for _, f := range p.sources() {
			for _, d := range f.syntax.Decls {
				key := f.path
				if fn, ok := d.(*ast.FuncDecl); ok {
					key += ":" + funcName(fn)
				}
				for _, n := range printing(d, streams) {
					vs = append(vs, violation{pos: t.pos(n), key: key, problem: "a terminal may execute what is printed here",
						fix: "print to the writers that a command gets, by console.Streams, or to a printable.Writer, JSON to a " +
							"printable.NewJSONWriter; or give the reason in internal/archtest/exceptions.txt"})
				}
			}
		}
	}
	return vs
}

// printing returns the places in a declaration that use a standard stream, or write JSON to anything but a buffer and a
// printable.NewJSONWriter. Whether a stream is a terminal may be asked, and another one may take its place.
func printing(d ast.Decl, streams map[string]bool) (places []ast.Node) {
	allowed := map[ast.Node]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, e := range x.Lhs {
				allowed[e] = true
			}
		case *ast.CallExpr:
			allowed[x.Fun] = true // a method with the name of a stream
			switch called := qualified(x.Fun); {
			case called == "IsTerminal" || called == "console.IsTerminal":
				allowed[x.Args[0]] = true
			case slices.Contains([]string{"fmt.Print", "fmt.Printf", "fmt.Println", "print", "println"}, called),
				called == "json.NewEncoder" && !takesJSON(x.Args[0]):
				places = append(places, n)
			}
		case *ast.SelectorExpr:
			name := qualified(x)
			stream := slices.Contains([]string{"Out", "Err"}, x.Sel.Name) && streams[lastName(x.X)]
			if (stream || name == "os.Stdout" || name == "os.Stderr") && !allowed[n] {
				places = append(places, n)
			}
		}
		return true
	})
	return places
}

// takesJSON reports whether an argument is the address of a buffer, or a writer for JSON.
func takesJSON(arg ast.Expr) bool {
	if u, ok := arg.(*ast.UnaryExpr); ok {
		return u.Op == token.AND
	}
	call, ok := arg.(*ast.CallExpr)
	return ok && qualified(call.Fun) == "printable.NewJSONWriter"
}

// streams returns the names of variables, parameters and fields that hold the standard streams of ibrun somewhere in a package.
func (p *pkg) streams() map[string]bool {
	types, names := map[string]bool{"Streams": true}, map[string]bool{"Streams": true}
	for before := 0; before < len(types)+len(names); {
		before = len(types) + len(names)
		for _, f := range p.sources() {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				addStreams(n, types, names)
				return true
			})
		}
	}
	return names
}

// addStreams adds what a node declares: types that embed one of the types, and names of such a type or of such a value.
func addStreams(n ast.Node, types, names map[string]bool) {
	add := func(ids []*ast.Ident, kind ast.Expr) {
		for _, id := range ids {
			if types[lastName(kind)] {
				names[id.Name] = true
			}
		}
	}
	switch x := n.(type) {
	case *ast.TypeSpec:
		s, ok := x.Type.(*ast.StructType)
		if ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return f.Names == nil && types[lastName(f.Type)] }) {
			types[x.Name.Name] = true
		}
	case *ast.Field:
		add(x.Names, x.Type)
	case *ast.ValueSpec:
		add(x.Names, x.Type)
	case *ast.AssignStmt:
		for i, e := range x.Rhs {
			if id, ok := x.Lhs[i].(*ast.Ident); ok && (names[lastName(e)] || types[typeOf(e)]) {
				names[id.Name] = true
			}
		}
	}
}

// typeOf returns the name of the type of a literal, also if it is that of the value whose address is taken, and otherwise "".
func typeOf(e ast.Expr) string {
	if u, ok := e.(*ast.UnaryExpr); ok {
		e = u.X
	}
	if c, ok := e.(*ast.CompositeLit); ok {
		return lastName(c.Type)
	}
	return ""
}

// lastName returns the last name in a name with dots, or in one with a star before it.
func lastName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.StarExpr:
		return lastName(x.X)
	}
	return ""
}

// qualified returns a name with at most one dot, or "".
func qualified(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if from, ok := x.X.(*ast.Ident); ok {
			return from.Name + "." + x.Sel.Name
		}
	}
	return ""
}
