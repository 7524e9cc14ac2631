// Package openmpitest runs the programs of tests under Open MPI's launcher.
package openmpitest

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/needtest"
)

const (
	attempts = 10          // about one in twelve jobs that are aborted crashes mpirun
	timeout  = time.Minute // a job of these tests takes about 0.1 s
)

// Env returns the variables that mpirun needs beside those of this process. They let it run as root, and name a folder for its
// temporary files. The folder is removed when the test ends. By default all mpiruns of a host use one folder in /tmp. An mpirun
// that ends removes that folder, and another one that starts at that moment fails: "A call to mkdir was unable to create the
// desired directory".
func Env(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ompi") // a short path, because the ranks may make sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "TMPDIR=" + dir}
}

// Run runs mpirun with arguments, and with environment variables beside those of this process, until it ends. It returns what
// mpirun has printed, and its exit code. Without Open MPI the test is skipped; in CI it fails.
//
// In Open MPI 4.1, mpirun sometimes crashes or hangs in PMIx_server_finalize after a job that was aborted, also with a C program
// of four calls (PMIx_Init, PMIx_Abort in one process, PMIx_Fence in the others). Run then tries again.
func Run(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	launcher := needtest.Program(t, "mpirun.openmpi", "openmpi-bin")
	for range attempts {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		cmd := exec.CommandContext(ctx, launcher, append([]string{"--oversubscribe"}, args...)...)
		cmd.Env = slices.Concat(os.Environ(), Env(t), env)
		cmd.WaitDelay = time.Second // processes of the job may keep the pipes
		var out, diagnostics strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &diagnostics
		err := cmd.Run()
		cancel()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if cmd.ProcessState.Exited() {
			return out.String(), diagnostics.String(), cmd.ProcessState.ExitCode()
		}
		t.Logf("mpirun itself ended by %v:\n%s%s", err, &out, &diagnostics)
	}
	t.Fatalf("mpirun crashed or hung %d times", attempts)
	return "", "", 0
}
