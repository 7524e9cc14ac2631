// Package mpi4pytest compares example programs with the same programs in Python over mpi4py: their output, and their lines of
// communication. It is used by tests only.
//
// The lines of communication of a program are those between a comment line "communication begins" and the next comment line
// "communication ends", of all such regions of its files. Empty lines and lines that have only a comment do not count. A region
// holds what exists only because there are several ranks: calls, the handling of their errors, buffers, and loops around them.
package mpi4pytest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/openmpitest"
)

// runTimeout bounds the run of a Python program, which may hang.
const runTimeout = 5 * time.Minute

// Lines returns the number of lines of communication in the text of a program. An error says which comment is missing.
func Lines(text string) (n int, err error) {
	inside := false
	regions := 0
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "//")
		if !isComment {
			comment, isComment = strings.CutPrefix(line, "#")
		}
		switch word := strings.TrimSpace(comment); {
		case isComment && word == "communication begins", isComment && word == "communication ends":
			if begins := word == "communication begins"; begins == inside {
				return 0, fmt.Errorf("line %d: %q follows another", number+1, word)
			}
			inside = !inside
			regions++
		case inside && !isComment && line != "":
			n++
		}
	}
	if inside || regions == 0 {
		return 0, fmt.Errorf("want comments \"communication begins\" and \"communication ends\"")
	}
	return n, nil
}

// CompareLines fails the test if the Go program has more than twice as many lines of communication as its Python twin.
func CompareLines(t *testing.T, goFile, pythonFile string) {
	t.Helper()
	var counts [2]int
	for i, name := range []string{goFile, pythonFile} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if counts[i], err = Lines(string(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Logf("lines of communication: %d in %s, %d in %s", counts[0], goFile, counts[1], pythonFile)
	if counts[0] > 2*counts[1] {
		t.Errorf("%s has %d lines of communication, %s has %d: want at most twice as many", goFile, counts[0], pythonFile, counts[1])
	}
}

// Run runs a Python program with n ranks and returns its standard output. It skips the test if mpi4py is not installed, and
// fails it in CI.
func Run(t *testing.T, n int, words ...string) string {
	t.Helper()
	const python = "/usr/bin/python3" // of the system, which has the package of mpi4py
	const found = "from importlib.util import find_spec as f; raise SystemExit(not (f('mpi4py') and f('numpy')))"
	if err := exec.Command(python, "-c", found).Run(); err != nil {
		needtest.Missing(t, "mpi4py: apt-get install python3-mpi4py python3-numpy: %v", err)
	}
	launcher := needtest.Program(t, "mpirun.openmpi", "openmpi-bin") // Debian builds mpi4py with Open MPI
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	args := append([]string{"--oversubscribe", "--bind-to", "none", "-n", strconv.Itoa(n), python}, words...)
	cmd := exec.CommandContext(ctx, launcher, args...)
	cmd.Env = append(os.Environ(), "OMPI_MCA_mpi_yield_when_idle=1", "OPENBLAS_NUM_THREADS=1")
	cmd.Env = append(cmd.Env, openmpitest.Env(t)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return stdout.String()
}
