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
	texts := strings.Join(texts(t), "\n")
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
			for part := range strings.SplitSeq(message, "...") {
				if !strings.Contains(texts, strings.TrimSpace(part)) {
					t.Errorf("%q: no text has %q", message, part)
				}
			}
		}
	}
	if messages < 40 {
		t.Errorf("only %d messages were found", messages)
	}
}

// texts returns the constant strings of the code outside of tests.
func texts(t *testing.T) (all []string) {
	t.Helper()
	files := token.NewFileSet()
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "dist", ".git", "examples"}, d.Name()):
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
