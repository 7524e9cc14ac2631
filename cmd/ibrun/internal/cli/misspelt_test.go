package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestMisspelt: Misspelt finds variables whose names are nearly those of variables that ibrun reads, and says which these are. It
// does not report variables that ibrun reads, short names, a user's own names, or empty variables.
func TestMisspelt(t *testing.T) {
	got := Misspelt([]string{"IBRUN_TRANSPROT=tcp", "IBRUN_TRANSPORT=tcp", "IBRUN_RDMA_DEVICE=mlx5_0", "IBRUN_CPU=1", "IBRUN_NN=2",
		"IBRUN_MY_RESULTS=/d", "IBRUN_BIND_T=core", "IBRUN_LABEL=1", "IBRUN_FD=3", "TRANSPROT=tcp", "IBRUN_HEARTBEET=1s",
		"IBRUN_HEARTBEAD="})
	want := []Misspelling{{"IBRUN_TRANSPROT", "IBRUN_TRANSPORT"}, {"IBRUN_RDMA_DEVICE", "IBRUN_RDMA_DEVICES"},
		{"IBRUN_BIND_T", "IBRUN_BIND_TO"}, {"IBRUN_HEARTBEET", "IBRUN_HEARTBEAT"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDocumentedVariables: no variable that the documentation names counts as misspelt.
func TestDocumentedVariables(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "../../../../README.md", "../../../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bIBRUN_[A-Z0-9_]+`).FindAllString(string(text), -1) {
			if got := Misspelt([]string{name + "=1"}); len(got) > 0 {
				t.Errorf("%s: %v", page, got)
			}
		}
	}
}
