//go:build unix

package pmi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

// actAs names the environment variable that makes this test binary a rank instead.
const actAs = "IBRUN_PMI_TEST_RANK"

func TestMain(m *testing.M) {
	if how := os.Getenv(actAs); how != "" {
		if err := runRank(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runRank runs in the test binary if a real launcher has started it.
func runRank(how string) error {
	c, err := FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if c == nil {
		return errors.New("no launcher found")
	}
	ctx := context.Background()
	if how == "abort" {
		if c.Rank() == 2 {
			if err := c.Abort(7, "for a test"); err != nil {
				return err
			}
		}
		return c.Barrier(ctx) // until the launcher kills this process
	}
	appnum, err := c.AppNum()
	if err != nil {
		return err
	}
	if _, err := c.UniverseSize(); err != nil {
		return err
	}
	if _, err := c.Get("nothing"); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("a key that does not exist: %v", err)
	}
	if err := exchange(ctx, c, 2000); err != nil {
		return err
	}
	if c.Rank() < 2 {
		if err := c.GroupBarrier(ctx, []int{0, 1}, 1); err != nil && !errors.Is(err, ErrNotSupported) {
			return err
		}
	}
	fmt.Printf("rank %d of %d, program %d\n", c.Rank(), c.Size(), appnum)
	return c.Finalize()
}

// hydra returns the path of MPICH's launcher, or skips the test.
func hydra(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("mpiexec.mpich"); err == nil {
		return path
	}
	return needtest.Program(t, "mpiexec.hydra", "mpich")
}

func TestUnderHydra(t *testing.T) {
	mpiexec := hydra(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"rank 0 of 4, program 0", "rank 1 of 4, program 0", "rank 2 of 4, program 0", "rank 3 of 4, program 0"}
	for name, test := range map[string]struct {
		how  string
		args []string
		want []string
		code int
	}{
		"descriptor": {"exchange", []string{"-n", "4", self}, all, 0},
		"port":       {"exchange", []string{"-pmi-port", "-n", "4", self}, all, 0},
		"two programs": {"exchange", []string{"-n", "1", self, ":", "-n", "1", self},
			[]string{"rank 0 of 2, program 0", "rank 1 of 2, program 1"}, 0},
		"abort": {"abort", []string{"-n", "4", self}, nil, 7},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), mpiexec, test.args...)
			cmd.Env = append(os.Environ(), actAs+"="+test.how)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != test.code {
				t.Fatalf("%v, want exit code %d\n%s%s", err, test.code, &stdout, &stderr)
			}
			if got := slices.Sorted(strings.Lines(stdout.String())); test.want != nil &&
				strings.Join(got, "") != strings.Join(test.want, "\n")+"\n" {
				t.Errorf("the output of the ranks:\n%s%s", &stdout, &stderr)
			}
		})
	}
}
