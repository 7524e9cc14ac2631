package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
)

// TestHelp: ibrun help COMMAND and ibrun COMMAND --help print the same usage, and ibrun help lists every command.
func TestHelp(t *testing.T) {
	lines := []string{"bench latency", "bench versus"}
	for name := range commands() {
		if name != "help" && !internalCommand(name) {
			lines = append(lines, name)
		}
	}
	for _, line := range lines {
		code, out, errs := runInProcess(t, "help "+line)
		if !strings.HasPrefix(out, "usage: ibrun ") || code != 0 || errs != "" {
			t.Errorf("help %s: exit %d\n%s%s", line, code, out, errs)
		}
		if c, o, e := runInProcess(t, line+" --help"); c != code || o != out || e != errs {
			t.Errorf("%s --help: exit %d\n%s%s\nbut help %s:\n%s", line, c, o, e, line, out)
		}
	}
	_, usage, _ := runInProcess(t, "help")
	for name := range commands() {
		if !internalCommand(name) && !strings.Contains(strings.ReplaceAll(usage, ",", ""), " "+name+" ") {
			t.Errorf("ibrun help does not list %s", name)
		}
	}
	if _, out, _ := runInProcess(t, "help help"); out != usage {
		t.Errorf("help help is\n%s", out)
	}
	for _, line := range []string{"help nonsense", "help ps nonsense", "help bench nonsense"} {
		if code, out, errs := runInProcess(t, line); code != exitUsageError || out != "" || !strings.Contains(errs, "nonsense") {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errs)
		}
	}
}

// runInProcess runs ibrun in this process and returns its exit code and output.
func runInProcess(t *testing.T, line string) (code int, out, errs string) {
	t.Helper()
	var files [3]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	code = run(strings.Fields(line), nil, launch.Streams{In: files[0], Out: files[1], Err: files[2]})
	var texts [3]string
	for i, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return code, texts[1], texts[2]
}
