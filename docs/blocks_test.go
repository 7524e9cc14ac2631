package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/docpages"
)

// blocks returns the code blocks of all pages, by page.
func blocks(t *testing.T) [][]docpages.Block {
	t.Helper()
	var all [][]docpages.Block
	for _, p := range pages(t) {
		list, err := docpages.Read("..", p.name)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			all = append(all, list)
		}
	}
	return all
}

// TestBlocksAreTagged: every code block says what it is, so that a step of CI types it, or compares it with what it quotes.
func TestBlocksAreTagged(t *testing.T) {
	for _, page := range blocks(t) {
		for _, b := range page {
			if err := b.Check(".."); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCommandsOfCI: what pages say that a target of the Makefile runs, it runs.
func TestCommandsOfCI(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range blocks(t) {
		for _, b := range page {
			if b.Tags["needs"] != "ci" {
				continue
			}
			for line := range strings.Lines(b.Text) {
				line = strings.TrimSpace(line)
				target, isMake := strings.CutPrefix(line, "make ")
				runs := regexp.MustCompile(`(?m)^\t(\w+=\S+ )*` + regexp.QuoteMeta(line) + "$")
				if !runs.Match(makefile) && !(isMake && strings.Contains(string(makefile), "\n"+target+": ")) {
					t.Errorf("%s: no target of the Makefile runs %q", b, line)
				}
			}
		}
	}
}
