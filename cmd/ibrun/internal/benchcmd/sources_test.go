package benchcmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// find returns the path of the C program in the sources in dir, as programSources says.
func find(ctx context.Context, dir string) (string, error) {
	return (&programSources{dir: dir}).findPeerProgram(ctx)
}

// TestFindPeerProgram: the C program is found in the module of the working directory and in the
// folder of the user. Errors say what to do, and how they can be told from others.
func TestFindPeerProgram(t *testing.T) {
	want, err := filepath.Abs(filepath.Join(sources, peerProgram))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", sources} {
		if got, err := find(t.Context(), dir); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", dir, got, err, want)
		}
	}
	empty := t.TempDir()
	if _, err := find(t.Context(), empty); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), empty) {
		t.Errorf("a folder without sources: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := find(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
	module := t.TempDir() // which does not use ibrun
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module example.com/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{empty, module} {
		t.Chdir(from)
		if _, err := find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "or with --sources DIR") {
			t.Errorf("from a folder without sources: %v", err)
		}
	}
	t.Setenv("PATH", empty)
	if _, err := find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "or with --sources DIR") {
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

// TestBuildReference: the reference program is the given file, or built from the sources. What is
// missing is an error that says how to get it, and that versus can tell from a build that fails.
func TestBuildReference(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	given := programSources{reference: self, dir: "nowhere"}
	if got, err := given.buildReference(t.Context(), "", nil); err != nil || got != self {
		t.Errorf("the given file: %s, %v", got, err)
	}
	for name, s := range map[string]programSources{"no file": {reference: "nowhere"}, "no sources": {dir: t.TempDir()}} {
		if _, err := s.buildReference(t.Context(), "", nil); !errors.As(err, new(usageError)) || errors.Is(err, errNoReference) {
			t.Errorf("%s: %v", name, err)
		}
	}
	built, err := (&programSources{dir: sources}).buildReference(t.Context(), t.TempDir(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(built).CombinedOutput(); err == nil || !strings.Contains(string(out), "want sockets or verbs") {
		t.Errorf("the built program: %v, %s", err, out)
	}
	broken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(broken, referenceProgram), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = (&programSources{dir: broken}).buildReference(t.Context(), t.TempDir(), os.Environ())
	if err == nil || errors.Is(err, errNoReference) || !strings.Contains(err.Error(), "go build") {
		t.Errorf("a build that fails: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, dir := range []string{"", sources} {
		if _, err := (&programSources{dir: dir}).buildReference(t.Context(), "", nil); !errors.Is(err, errNoReference) ||
			!strings.Contains(err.Error(), "with --reference FILE") {
			t.Errorf("%q without a go command: %v", dir, err)
		}
	}
}

// TestVersusWithoutReference: sockets are left out if their program cannot be built, unless they
// were asked for by name.
func TestVersusWithoutReference(t *testing.T) {
	self, _ := fakes(t, map[string]string{"openmpi": "5"}) // there is no go command in the PATH
	words := []string{"versus", "--transport", "tcp", "--op", "latency", "--size", "8", "--json"}
	out := runCommand(t, self, nil, words...)
	if lines := parseLines(t, out.stdout); out.code != exitOK || len(lines) != 1 ||
		!strings.Contains(out.stderr, "sockets is left out: ") {
		t.Errorf("exit %d, points %v\n%s", out.code, lines, out.stderr)
	}
	out = runCommand(t, self, nil, append(words, "--peer", "sockets")...)
	if out.code != exitFailed || out.stdout != "" || !strings.Contains(out.stderr, "--reference FILE") {
		t.Errorf("exit %d, stdout %q, stderr %q", out.code, out.stdout, out.stderr)
	}
}
