package gotest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	defaults := (&Command{}).defaults()
	for line, want := range map[string]Command{
		"":                     {Packages: []string{"."}},
		"./...":                {Packages: []string{"./..."}},
		"-v -run Send a b":     {Packages: []string{"a", "b"}, Flags: []string{"-test.v", "-test.run=Send"}},
		"a -run=Send --v=true": {Packages: []string{"a"}, Flags: []string{"-test.run=Send", "-test.v=true"}},
		"-test.count 3 a":      {Packages: []string{"a"}, Flags: []string{"-test.count=3"}},
		"-tags static,x -race -ldflags=-s a": {Packages: []string{"a"},
			BuildFlags: []string{"-tags=static,x", "-race", "-ldflags=-s"}},
		"-vet off a":             {Packages: []string{"a"}},
		"a -update b -v":         {Packages: []string{"a"}, Flags: []string{"-update", "b", "-test.v"}},
		"-short a -args -v x -c": {Packages: []string{"a"}, Flags: []string{"-test.short", "-v", "x", "-c"}},
		"-bench . -benchmem -cpu 1,2": {Packages: []string{"."},
			Flags: []string{"-test.bench=.", "-test.benchmem", "-test.cpu=1,2"}},
	} {
		got, err := Parse(strings.Fields(line))
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		want.Flags = append(slices.Clone(defaults), want.Flags...)
		if !slices.Equal(got.Packages, want.Packages) || !slices.Equal(got.BuildFlags, want.BuildFlags) ||
			!slices.Equal(got.Flags, want.Flags) {
			t.Errorf("%q: %+v, want %+v", line, *got, want)
		}
	}
	for line, want := range map[string]string{
		"-json a":            "-json",
		"-coverprofile=x a":  "-coverprofile",
		"-fuzz Fuzz a":       "-fuzz",
		"a -test.cpuprofile": "-cpuprofile",
		"a -run":             "needs a value",
	} {
		if got, err := Parse(strings.Fields(line)); !errors.Is(err, ErrUse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", line, got, err, want)
		}
	}
}

// Every flag in `go help testflag`, `go help test` and `go help build` must be known: unknown flags are passed to test programs.
func TestAllFlagsAreKnown(t *testing.T) {
	for _, topic := range []string{"testflag", "test", "build"} {
		text, err := exec.Command("go", "help", topic).Output()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(text)) {
			name, ok := strings.CutPrefix(line, "\t-")
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			name, _, _ = strings.Cut(name, "=")
			name = strings.TrimRight(name, ",")
			found++
			if use, _ := flagUse(name); use == unknown && name != "args" {
				t.Errorf("go help %s lists the unknown flag -%s", topic, name)
			}
		}
		if found == 0 {
			t.Errorf("go help %s lists no flags", topic)
		}
	}
}

// chdirTestModule makes a module with three packages, and changes to its directory.
func chdirTestModule(t *testing.T, extra map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":          "module example.com/m\n\ngo 1.26\n",
		"a/a_test.go":     "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"of a\") }\n",
		"b/x/a/b_test.go": "package a_test\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Fatal(\"of b\") }\n",
		"c/c.go":          "package c\n",
	}
	for name, text := range extra {
		files[name] = text
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
}

func TestBuild(t *testing.T) {
	chdirTestModule(t, nil)
	c, err := Parse([]string{"-v", "./..."})
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	packages, err := c.Build(context.Background(), t.TempDir(), &stderr)
	if err != nil || len(packages) != 3 {
		t.Fatalf("%v, %v\n%s", packages, err, stderr.String())
	}
	for i, want := range []string{"of a", "of b", ""} {
		p := packages[i]
		if want == "" {
			if p.Binary != "" {
				t.Errorf("%s has no tests, but a test program %s", p.ImportPath, p.Binary)
			}
			continue
		}
		run := exec.Command(p.Binary, c.Flags...)
		run.Dir = p.Dir
		if out, _ := run.CombinedOutput(); !strings.Contains(string(out), want) { // the test of b fails, as expected
			t.Errorf("output of the tests of %s:\n%s", p.ImportPath, out)
		}
	}
}

func TestBuildFails(t *testing.T) {
	chdirTestModule(t, map[string]string{"d/d_test.go": "package d\n\nnonsense\n", "empty/text": ""})
	for name, c := range map[string]*Command{
		"[build failed]": {Packages: []string{"./..."}},
		"no packages":    {Packages: []string{"./empty/..."}},
		"go list":        {Packages: []string{"./missing"}},
	} {
		var stderr bytes.Buffer
		packages, err := c.Build(context.Background(), t.TempDir(), &stderr)
		if !errors.Is(err, ErrBuild) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v, %v; want an error with %q", c.Packages, packages, err, name)
		}
		if name != "no packages" && stderr.Len() == 0 {
			t.Errorf("%v: the go command printed nothing", c.Packages)
		}
	}
}
