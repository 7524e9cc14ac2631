package benchcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindPeerProgram: the C program is found in the module of the working directory and in the
// folder of the user. Errors say what to do, and how they can be told from others.
func TestFindPeerProgram(t *testing.T) {
	want, err := filepath.Abs(filepath.Join(sources, peerProgram))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", sources} {
		if got, err := findPeerProgram(t.Context(), dir); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", dir, got, err, want)
		}
	}
	empty := t.TempDir()
	if _, err := findPeerProgram(t.Context(), empty); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), empty) {
		t.Errorf("a folder without sources: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := findPeerProgram(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
	module := t.TempDir() // which does not use ibrun
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module example.com/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{empty, module} {
		t.Chdir(from)
		if _, err := findPeerProgram(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "or with --sources DIR") {
			t.Errorf("from a folder without sources: %v", err)
		}
	}
	t.Setenv("PATH", empty)
	if _, err := findPeerProgram(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "or with --sources DIR") {
		t.Errorf("without a go command: %v", err)
	}
}

// TestVersusWithoutSources: a comparison with another MPI says what it needs, before it measures.
func TestVersusWithoutSources(t *testing.T) {
	self, log := fakes(t, map[string]string{"openmpi": "5"})
	for _, env := range []string{"IBRUN_BENCH_SOURCES=", "IBRUN_BENCH_SOURCES=" + t.TempDir()} {
		for _, name := range []string{"versus", "performance"} {
			out := runCommand(t, self, []string{env}, name)
			if out.code == exitOK || out.stdout != "" || strings.Count(out.stderr, "sources of ibrun") != 1 {
				t.Errorf("%s, %s: exit %d, stdout %q, stderr %q", env, name, out.code, out.stdout, out.stderr)
			}
		}
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("a peer was started")
	}
}
