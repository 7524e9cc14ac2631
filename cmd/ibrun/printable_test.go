package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
	"github.com/ibrun/ibrun/internal/printable"
)

// TestPrintable: whatever is written in flags, arguments and variables, ibrun and each of its commands print it without control
// characters.
func TestPrintable(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("IBRUN_RUNTIME_DIR", t.TempDir()) // without jobs
	const evil = "\x1b[2J\u009b31m\r\x9b\u202e\x7f"
	var lines [][]string
	var variables []string
	add := func(words ...string) { lines = append(lines, words) }
	for _, p := range pages() {
		for _, g := range p.Groups {
			for _, f := range g.Flags {
				flag := "--" + f.Names[0] + "=" + evil
				switch {
				case p.Name == "":
					add("--dry-run", flag, "./"+evil)
					variables = append(variables, "IBRUN_"+strings.ToUpper(strings.ReplaceAll(f.Names[0], "-", "_"))+"="+evil)
				case strings.HasPrefix(p.Name, "bench"): // otherwise it measures
					add(append(strings.Fields(p.Name), flag, "--"+evil)...)
				case p.Name == "doctor":
					add("doctor", flag, "--json", "--"+evil) // otherwise it asks hosts
				default:
					add(append(strings.Fields(p.Name), flag)...)
				}
			}
		}
		if p.Name != "" && p.Name != "doctor" {
			add(append(strings.Fields(p.Name), evil)...)
		}
		add(append(strings.Fields(p.Name), "--"+evil)...)
		add(append([]string{"help"}, append(strings.Fields(p.Name), evil)...)...)
	}
	add(evil)
	add("--log-format=json", "--"+evil)
	add("secret", filepath.Join(evil, evil))
	add("debugger", filepath.Join(evil, evil), evil, evil)
	add("-n", "1", "--node-name", evil, "--dry-run", "true")
	add("-n", "1", "--dry-run", "true", evil)
	shown := 0
	check := func(words, env []string) {
		out, errs := runWords(t, words, append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir()))
		for _, text := range []string{out, errs} {
			if safe := printable.Text(text); safe != text {
				t.Errorf("ibrun %q with %q: %q", words, env, text)
			}
			if strings.Contains(text, `[2J`) {
				shown++
			}
		}
	}
	for _, words := range lines {
		check(words, nil)
	}
	for _, v := range variables {
		check([]string{"--dry-run", "true"}, []string{v})
	}
	if shown < 100 {
		t.Errorf("the text was printed by only %d of %d calls", shown, len(lines)+len(variables))
	}
}

// runWords runs ibrun in this process, and returns what it prints.
func runWords(t *testing.T, words, env []string) (out, errs string) {
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
	run(words, env, launch.Streams{In: files[0], Out: files[1], Err: files[2]})
	var texts [3]string
	for i, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[1], texts[2]
}
