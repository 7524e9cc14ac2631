package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/internal/needtest"
)

// TestManualPages: there is a page for each command, and neither mandoc nor groff finds anything wrong with one.
func TestManualPages(t *testing.T) {
	t.Parallel()
	needtest.Program(t, "mandoc", "mandoc")
	needtest.Program(t, "groff", "groff-base")
	dir, names := t.TempDir(), map[string]bool{}
	var files []string
	for _, p := range pages() {
		name := filepath.Join(dir, p.FileName())
		page := p.Roff(manual.Source{Version: "v1.2.3", Date: "2026-01-02"}, pages())
		if err := os.WriteFile(name, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
		names[p.Name] = true
		files = append(files, name)
	}
	for name := range commands() {
		if names[name] == internalCommand(name) {
			t.Errorf("command %s: its page is there: %v", name, names[name])
		}
	}
	for _, check := range [][]string{{"mandoc", "-Tlint", "-Wstyle"}, {"groff", "-man", "-ww", "-z"}} {
		out, err := exec.Command(check[0], append(check[1:], files...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%.2000s", check[0], err, out)
		}
	}
}

// TestManualInTerminal: on a terminal ibrun man shows the page by man, otherwise it prints the source.
func TestManualInTerminal(t *testing.T) {
	t.Parallel()
	needtest.Program(t, "man", "man-db")
	cmd := exec.Command("ibrun", "man", "secret")
	cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANROFFOPT=-c", "LC_ALL=C")
	v := startInTerminal(t, cmd)
	v.want("IBRUN-SECRET(1)")
	v.want("ibrun secret FILE")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	out, err := exec.Command("ibrun", "man", "secret").Output()
	if err != nil || !strings.HasPrefix(string(out), ".TH \"IBRUN\\-SECRET\" 1") {
		t.Errorf("%v:\n%s", err, out)
	}
}
