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
	"github.com/ibrun/ibrun/internal/needtest"
)

// Each rank is bound before it starts, so that Go counts only the cores of its share.
func TestCores(t *testing.T) {
	t.Parallel()
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
		// A GOMAXPROCS of the environment is the user's, which ranks inherit.
		args := append([]string{"-u", "GOMAXPROCS", "ibrun"}, c.args...)
		p := startCommand(t, 0, exec.Command("env", append(args, "--output", filepath.Join(t.TempDir(), "%r"), "rank", "cores")...))
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

// runsWithClusters skips a test that starts programs or launchers of other MPI libraries, which takes seconds, unless the target
// of CI runs it that has those.
func runsWithClusters(t *testing.T) {
	t.Helper()
	if os.Getenv("IBRUN_CLUSTERS") == "" {
		t.Skip("`make clusters` runs it")
	}
}

// mpichProgram builds a program with MPICH.
func mpichProgram(t *testing.T) string {
	t.Helper()
	runsWithClusters(t)
	mpicc := needtest.Program(t, "mpicc.mpich", "libmpich-dev")
	program := filepath.Join(t.TempDir(), "sum")
	if out, err := exec.Command(mpicc, "-o", program, "testdata/mpich.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// A program that was built with MPICH, without knowledge of ibrun, runs under it.
func TestMPICHProgram(t *testing.T) {
	t.Parallel()
	program := mpichProgram(t)
	out, err := exec.Command("ibrun", "-n", "4", program).Output()
	if got, want := string(out), "sum of 4 ranks: 6\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	p := startJob(t, 0, "-n", "3", program, "abort")
	p.wantCode(9, "rank 1 on")
}
