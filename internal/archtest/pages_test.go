package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// sourcePath matches a path of a source file from the top of the repository.
var sourcePath = regexp.MustCompile("`([a-z][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)+\\.(?:go|s|txt))`")

// TestPages checks that every source file named in a Markdown page exists. Links are checked in docs.
func TestPages(t *testing.T) {
	root := os.DirFS("../..")
	checked := 0
	err := fs.WalkDir(root, ".", func(page string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && page != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(page) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, page)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, target := range targets(line) {
				checked++
				if _, err := fs.Stat(root, target); err != nil {
					t.Errorf("%s:%d: %s does not exist", page, i+1, target)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 50 {
		t.Errorf("only %d paths were found", checked)
	}
}

// TestPageTargets shows which targets of a line are checked.
func TestPageTargets(t *testing.T) {
	for line, want := range map[string]string{
		"in `mpi/send.go` and `doc.go`, not `a/b` or x/y.go": "mpi/send.go",
		"`a/b.txt`, `c/d.s`": "a/b.txt c/d.s",
	} {
		if got := strings.Join(targets(line), " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// targets returns the paths of source files that a line of a page names, relative to the top of the repository.
func targets(line string) (paths []string) {
	for _, m := range sourcePath.FindAllStringSubmatch(line, -1) {
		paths = append(paths, m[1])
	}
	return paths
}
