package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// TestDocumentedPrograms: the programs in README.md and docs/sessions.md print what the documents say.
func TestDocumentedPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		doc   string
		flags []string
		args  []string
		want  []string
	}{
		{"README.md", []string{"-n", "4"}, nil, []string{
			"rank 0 of 4: the sum of all ranks is 6", "rank 1 of 4: the sum of all ranks is 6",
			"rank 2 of 4: the sum of all ranks is 6", "rank 3 of 4: the sum of all ranks is 6",
		}},
		{"docs/sessions.md", []string{"-n", "4", "--pset", "ocean=0-2"}, []string{"ocean"}, []string{
			"rank 0 of 3 in ocean sum 3", "rank 1 of 3 in ocean sum 3", "rank 2 of 3 in ocean sum 3",
		}},
	} {
		text, err := os.ReadFile("../../" + c.doc)
		if err != nil {
			t.Fatal(err)
		}
		_, program, _ := strings.Cut(string(text), "```go\npackage main\n")
		program, _, found := strings.Cut(program, "```")
		dir, err := os.MkdirTemp("testdata", "documented") // inside the module, so that imports are found
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "main.go")
		if err := os.WriteFile(file, []byte("package main\n"+program), 0o666); err != nil || !found {
			t.Fatalf("%s: a program was found: %v; %v", c.doc, found, err)
		}
		out, err := exec.Command("ibrun", slices.Concat(c.flags, []string{file}, c.args)...).Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(lines)
		if err != nil || !slices.Equal(lines, c.want) {
			t.Errorf("%s: %v\n%s", c.doc, err, out)
		}
		for _, line := range c.want {
			if c.doc == "README.md" && !strings.Contains(string(text), "\n"+line+"\n") {
				t.Errorf("README.md does not say %q", line)
			}
		}
	}
}

// Each rank is bound before it starts, so that Go counts only the cores of its share.
func TestCores(t *testing.T) {
	allowed, err := hw.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs)
	if err != nil {
		t.Fatal(err)
	}
	cores := top.CoresOf(allowed)
	line := func(cores ...[]int) string {
		var pus []int
		for _, core := range cores {
			pus = append(pus, core...)
		}
		return fmt.Sprintf("cores %s GOMAXPROCS %d\n", hw.FormatList(pus), len(pus))
	}
	all := line(cores...)
	crowded := fmt.Sprintf("cores %s GOMAXPROCS 1\n", hw.FormatList(slices.Concat(cores...)))
	for _, c := range []struct {
		args []string
		want string
		need int // cores
	}{
		{[]string{"-n", "1"}, all, 1},
		{[]string{"-n", "1", "--bind-to", "core"}, line(cores[0]), 1},
		{[]string{"-n", "2", "--bind-to", "none"}, all + all, 1},
		{[]string{"-n", fmt.Sprint(len(allowed) + 1)}, strings.Repeat(crowded, len(allowed)+1), 1},
		{[]string{"-n", "2"}, line(cores[:len(cores)/2]...) + line(cores[len(cores)/2:len(cores)/2*2]...), 2},
	} {
		if len(cores) < c.need {
			t.Logf("%v needs %d cores; this machine has %d", c.args, c.need, len(cores))
			continue
		}
		p := startJob(t, 0, append(c.args, "--output", filepath.Join(t.TempDir(), "%r"), "rank", "cores")...)
		p.wantCode(0, "")
		files, err := filepath.Glob(filepath.Join(filepath.Dir(p.cmd.Args[len(p.cmd.Args)-3]), "*"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got += string(text)
		}
		if got != c.want {
			t.Errorf("%v: got\n%swant\n%s", c.args, got, c.want)
		}
	}
}

// mpichProgram builds a program with MPICH.
func mpichProgram(t *testing.T) string {
	t.Helper()
	mpicc, err := exec.LookPath("mpicc.mpich")
	if err != nil {
		const need = "needs MPICH: apt-get install libmpich-dev"
		if os.Getenv("CI") == "true" {
			t.Fatal(need)
		}
		t.Skip(need)
	}
	program := filepath.Join(t.TempDir(), "sum")
	if out, err := exec.Command(mpicc, "-o", program, "testdata/mpich.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// A program that was built with MPICH, without knowledge of ibrun, runs under it.
func TestMPICHProgram(t *testing.T) {
	program := mpichProgram(t)
	out, err := exec.Command("ibrun", "-n", "4", program).Output()
	if got, want := string(out), "sum of 4 ranks: 6\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	p := startJob(t, 0, "-n", "3", program, "abort")
	p.wantCode(9, "rank 1 on")
}
