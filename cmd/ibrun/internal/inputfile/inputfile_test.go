package inputfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const limit = 1 << 20
	name := filepath.Join(t.TempDir(), "file")
	for _, n := range []int{0, 1, limit, limit + 1} {
		if err := os.WriteFile(name, []byte(strings.Repeat("x", n)), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := Read(name, limit)
		if n <= limit && (err != nil || len(text) != n) {
			t.Errorf("%d bytes: %d, %v", n, len(text), err)
		}
		if want := name + " is larger than 1 MiB"; n > limit && (err == nil || err.Error() != want) {
			t.Errorf("%d bytes: %v, want %s", n, err, want)
		}
	}
	if _, err := Read(name+".missing", limit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestSyntaxError(t *testing.T) {
	for want, e := range map[string]*SyntaxError{
		"f:2:3: bad":       {"f", 2, 3, "bad"},
		"V: column 3: bad": {"V", 0, 3, "bad"},
		"column 3: bad":    {"", 0, 3, "bad"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
