package archtest

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed waits.txt
var waitsText string

const waitsFile = "internal/archtest/waits.txt"

// shortest is the shortest duration that a test may set: no goroutine of a busy machine is later.
const shortest = 10 // seconds

// checkWaits reports the places of tests that depend on how fast the machine is. table says which files may have how many.
func checkWaits(t *tree, table string) []violation {
	allowed, vs := parseNumbers(waitsFile, table)
	found := map[string][]ast.Node{}
	for f := range t.testFiles("internal/waittest") {
		for kind, n := range f.waits {
			key := f.path + " " + kind
			found[key] = append(found[key], n)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		path, kind, _ := strings.Cut(key, " ")
		if have, may := len(found[key]), allowed.may[key]; have > may {
			vs = append(vs, violation{pos: t.pos(found[key][have-1]),
				problem: fmt.Sprintf("%s: %d places of kind %s, %d are allowed; such a test depends on how fast the machine is",
					path, have, kind, may),
				fix: "wait for a condition by internal/waittest; set durations of at least 10 s, or a clock"})
		}
	}
	return append(vs, allowed.unused(func(key string) int { return len(found[key]) })...)
}

// forTests reports whether a file that is not a test belongs to one: it imports testing.
func (f *file) forTests() bool {
	for _, path := range f.imports {
		if path == "testing" {
			return true
		}
	}
	return false
}

// waits yields each place of a file that depends on how fast the machine is, with its kind.
func (f *file) waits(yield func(kind string, n ast.Node) bool) {
	more := true
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if kind := waitKind(n); kind != "" && more {
			more = yield(kind, n)
		}
		return more
	})
}

// waitKind returns why a node makes a test depend on how fast the machine is, or "".
func waitKind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		return selectorKind(n)
	case *ast.BinaryExpr:
		if isComparison(n.Op) && (isCall(n.X, "time", "Since", "Until") || isCall(n.Y, "time", "Since", "Until")) {
			return "elapsed"
		}
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 1 && (s.Sel.Name == "After" || s.Sel.Name == "Before") &&
			(isCall(s.X, "time", "Now") || isCall(n.Args[0], "time", "Now")) {
			return "elapsed"
		}
		return shortFlags(n.Args)
	case *ast.KeyValueExpr:
		if s, ok := seconds(n.Value); ok && s > 0 && s < shortest {
			return "duration"
		}
	}
	return ""
}

func selectorKind(s *ast.SelectorExpr) string {
	x, _ := s.X.(*ast.Ident)
	switch name := s.Sel.Name; {
	case x != nil && x.Name == "time" && name == "Sleep":
		return "sleep"
	case x != nil && x.Name == "time" && (name == "After" || name == "Tick"):
		return "after"
	case x != nil && x.Name == "context" && (strings.HasPrefix(name, "WithTimeout") || strings.HasPrefix(name, "WithDeadline")):
		return "context"
	case name == "SetDeadline" || name == "SetReadDeadline" || name == "SetWriteDeadline":
		return "deadline"
	}
	return ""
}

func isComparison(op token.Token) bool {
	return op == token.LSS || op == token.GTR || op == token.LEQ || op == token.GEQ
}

// isCall reports whether an expression is a call of one of these functions of a package.
func isCall(e ast.Expr, pkg string, funcs ...string) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(funcs, s.Sel.Name)
}

// timeUnits are the constants of package time, in seconds.
var timeUnits = map[string]float64{
	"Nanosecond": 1e-9, "Microsecond": 1e-6, "Millisecond": 1e-3, "Second": 1, "Minute": 60, "Hour": 3600,
}

// seconds returns the value of a duration that is written as "N * time.Unit" or "time.Unit".
func seconds(e ast.Expr) (float64, bool) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "time" {
			unit, ok := timeUnits[e.Sel.Name]
			return unit, ok
		}
	case *ast.BinaryExpr:
		if n, ok := e.X.(*ast.BasicLit); ok && e.Op == token.MUL {
			unit, known := seconds(e.Y)
			v, err := strconv.ParseFloat(n.Value, 64)
			return v * unit, known && err == nil
		}
	}
	return 0, false
}

// flagTime matches a flag that sets a limit of time, with or without its value.
var flagTime = regexp.MustCompile(`^--?(timeout|join-timeout|heartbeat|grace|kill-after|detect-after)(=(.*))?$`)

// shortFlags returns "duration" if arguments set a limit of time below the shortest duration.
func shortFlags(args []ast.Expr) string {
	for i, a := range args {
		m := flagTime.FindStringSubmatch(literal(a))
		if m == nil {
			continue
		}
		value := m[3]
		if m[2] == "" && i+1 < len(args) {
			value = literal(args[i+1])
		}
		number, unit := strings.TrimRight(value, "hms"), 1.0
		switch value[len(number):] {
		case "ms":
			unit = 1e-3
		case "m":
			unit = 60
		case "h":
			unit = 3600
		}
		if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 && v*unit < shortest {
			return "duration"
		}
	}
	return ""
}

// literal returns the value of a string literal, or "".
func literal(e ast.Expr) string {
	if b, ok := e.(*ast.BasicLit); ok && b.Kind == token.STRING {
		if s, err := strconv.Unquote(b.Value); err == nil {
			return s
		}
	}
	return ""
}
