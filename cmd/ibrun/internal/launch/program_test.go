package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// place creates files below a new directory and makes that the current directory. A name that ends in "/" is a directory.
func place(t *testing.T, files map[string]os.FileMode) {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, mode); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestFindProgram(t *testing.T) {
	place(t, map[string]os.FileMode{
		"bin/tool": 0o755, "bin/data": 0o644, "bin/both/": 0o755, "late/data": 0o755, "late/both": 0o755,
		"tool/main.go": 0o644, "pkg/main.go": 0o644, "bare/": 0o755, "here": 0o755, "one.go": 0o644, "note": 0o644,
	})
	path := "bin" + string(filepath.ListSeparator) + "late"
	for _, c := range []struct {
		word, want string
		isGo       bool
		code       int
	}{
		{"tool", "bin/tool", false, 0},         // a program in PATH comes before a directory here
		{"./tool", "tool", true, 0},            // a word with a slash is that directory
		{"pkg", "pkg", true, 0},                // so is a word that is not a program in PATH
		{"pkg/", "pkg", true, 0},               //
		{"data", "late/data", false, 0},        // files in PATH that cannot be executed are skipped
		{"both", "late/both", false, 0},        // directories in PATH are skipped
		{"./here", "here", false, 0},           //
		{"one.go", "one.go", true, 0},          //
		{"./one.go", "one.go", true, 0},        //
		{"here", "", false, exitcode.NotFound}, // not in PATH
		{"nowhere", "", false, exitcode.NotFound},
		{"./nowhere", "", false, exitcode.NotFound},
		{"./here/x", "", false, exitcode.NotFound},
		{"./note", "", false, exitcode.NotExecutable},
		{"bin/data", "", false, exitcode.NotExecutable},
		{"./bare", "", false, exitcode.NotExecutable},
		{"/dev/null", "", false, exitcode.NotExecutable},
	} {
		got, err := findProgram(c.word, path)
		if c.code != 0 {
			if err == nil || exitcode.Of(err) != c.code {
				t.Errorf("%s: got %+v, error %v, want exit code %d", c.word, got, err, c.code)
			}
			continue
		}
		want, absErr := filepath.Abs(c.want)
		if absErr != nil {
			t.Fatal(absErr)
		}
		if err != nil || got != (program{want, c.isGo}) {
			t.Errorf("%s: got %+v, %v, want %s, Go source: %v", c.word, got, err, want, c.isGo)
		}
	}
	if _, err := findProgram("data", "bin"); !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a file in PATH without execute permission: %v", err)
	}
}
