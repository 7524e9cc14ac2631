package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/openmpitest"
)

// TestSameAsOtherLaunchers: with flags of mpiexec and mpirun, and with their files of programs, ibrun starts what they start.
func TestSameAsOtherLaunchers(t *testing.T) {
	t.Parallel()
	runsWithClusters(t)
	needtest.Program(t, "mpiexec.hydra", "mpich")
	needtest.Program(t, "mpirun.openmpi", "openmpi-bin")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config": "# programs\n-n 2 echo \"a  b\" 'c' # twice\n-genv A 1 -n 1 printenv A : -n 1 -env A 2 printenv A\n-n 1 " +
			"-env B=3=4 printenv B\n",
		"app": "# programs\n-np 2 echo \"a  b\" 'c' // twice\n-np 1 -x A=1 printenv A\n-np 1 -wd / pwd\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hydra := []string{"mpiexec.hydra"}
	open := []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}
	for _, c := range []struct {
		launcher []string
		line     string
	}{
		{hydra, "-configfile config"},
		{hydra, "-genv A 1 -n 1 printenv A : -n 2 -env A 2 printenv A"},
		{hydra, "-l -n 2 echo hi"},
		{hydra, "-n 1 -wdir / pwd : -n 1 pwd"},
		{open, "--app app"},
		{open, "-np 1 -x A=1 printenv A : -np 2 -wd / pwd"},
		{open, "-c 2 -x HOME --mca btl self,tcp printenv HOME"},
	} {
		want := startedBy(t, dir, slices.Concat(c.launcher, strings.Fields(c.line)))
		own := "ibrun"
		if c.launcher[0] == "mpirun.openmpi" {
			own += " " + strings.Join(c.launcher[1:], " ")
		}
		if got := startedBy(t, dir, slices.Concat(strings.Fields(own), strings.Fields(c.line))); !slices.Equal(got, want) {
			t.Errorf("%s %s prints %q, but ibrun %q", c.launcher[0], c.line, want, got)
		}
	}
}

// startedBy returns the sorted lines that a job prints. Standard input stays open: MPICH's mpiexec dies of SIGPIPE if it forwards
// the end of standard input to a rank that has ended. A launcher that is killed by a signal is started again, at most twice.
func startedBy(t *testing.T, dir string, command []string) []string {
	t.Helper()
	in, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer open.Close()
	for range 3 {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Stdin = dir, in
		cmd.Env = append(os.Environ(), openmpitest.Env(t)...)
		out, err := cmd.Output()
		if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
			if err != nil {
				t.Errorf("%q: %v\n%s", command, err, out)
			}
			return slices.Sorted(strings.Lines(string(out)))
		}
		t.Logf("%q: %v", command, err)
	}
	t.Fatalf("%q was killed three times", command)
	return nil
}
