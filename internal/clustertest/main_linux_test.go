package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs is the directory of the programs that the tests run: ibrun, pi and sum. It is first in PATH.
var programs string

// checkout is the top of the module.
var checkout string

// TestMain builds the programs and runs the tests, if they are wanted.
func TestMain(m *testing.M) {
	if os.Getenv("IBRUN_CLUSTERS") == "" {
		fmt.Println("skipped: these tests run with `make clusters`")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	tmp, err := os.MkdirTemp("", "clu") // a short path, because sockets are below it
	if err == nil {
		defer os.RemoveAll(tmp)
		err = prepare(tmp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare builds the programs below tmp and sets PATH.
func prepare(tmp string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the tests of clusters need root")
	}
	var err error
	if checkout, err = filepath.Abs("../.."); err != nil {
		return err
	}
	programs = filepath.Join(tmp, "bin")
	if err := os.Mkdir(programs, 0o755); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"go", "build", "-o", programs + "/", "./cmd/ibrun", "./examples/pi"},
		{"mpicc.mpich", "-o", filepath.Join(programs, "sum"), "./cmd/ibrun/testdata/mpich.c"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = checkout
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", command, err, out)
		}
	}
	return os.Setenv("PATH", programs+":"+os.Getenv("PATH"))
}
