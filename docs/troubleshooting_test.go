package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMessagesAreOurs: the messages in troubleshooting.md are texts of the programs and packages. In a message "..." is a value.
func TestMessagesAreOurs(t *testing.T) {
	page, err := fs.ReadFile(top, "docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	all := texts(t)
	messages := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, message := range codeText.FindAllString(strings.Split(line, "|")[1], -1) {
			message = strings.Trim(message, "`")
			if strings.Contains(message, " ") && !strings.HasPrefix(message, "ibrun ") {
				messages++
			}
			if !slices.ContainsFunc(all, func(text string) bool { return hasParts(text, message) }) {
				t.Errorf("no text is %q", message)
			}
		}
	}
	if messages < 40 {
		t.Errorf("only %d messages were found", messages)
	}
}

// hasParts reports whether a text has the parts of a message between "..." in their order.
func hasParts(text, message string) bool {
	for part := range strings.SplitSeq(message, "...") {
		_, after, found := strings.Cut(text, strings.TrimSpace(part))
		if !found {
			return false
		}
		text = after
	}
	return true
}

// texts returns the constant strings of the code outside of tests.
func texts(t *testing.T) (all []string) {
	t.Helper()
	files := token.NewFileSet()
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name()[0] == '.' || slices.Contains([]string{"testdata", "dist", "examples"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, "../"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := constant(e)
			if ok {
				all = append(all, text)
			}
			return !ok
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// constant returns the value of an expression that consists of string literals.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, okX := constant(e.X)
		y, okY := constant(e.Y)
		return x + y, e.Op == token.ADD && okX && okY
	}
	return "", false
}
