package pmi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordedSlurm checks with the variables of a real Slurm that a program is alone in a job's script and shell, and one of
// several in a step.
func TestRecordedSlurm(t *testing.T) {
	for name, size := range map[string]int{"salloc-N2": 1, "salloc-N2-n4": 1, "salloc-N2-n3-c2": 1, "salloc-het": 1,
		"sbatch-N2-n4":                1,
		"sbatch-N2-ntasks-per-node-2": 1, "srun-n1": 1, "srun-n4": 4, "srun-n4-pmix": 4, "srun-n4-pty": 4,
		"srun-het-0": 3, "srun-het-2": 3} {
		text, err := os.ReadFile(filepath.FromSlash("../../cmd/ibrun/internal/allocation/testdata/slurm-22.05/" + name))
		if err != nil {
			t.Fatal(err)
		}
		getenv := env(strings.Split(strings.TrimSpace(string(text)), "\n")...)
		c, err := FromEnv(getenv)
		launch, refused := errors.AsType[*LaunchError](err)
		if c != nil || refused != (size > 1) || err != nil && !refused {
			t.Errorf("%s: %v, %v; want a world of one: %v", name, c, err, size == 1)
		}
		if refused && !strings.Contains(launch.Fix, "srun --mpi=pmi2 -n "+string(rune('0'+size))) {
			t.Errorf("%s: %v", name, err)
		}
		if l := FindLauncher(getenv, true); name == "srun-n4-pty" && l != nil {
			t.Errorf("in the shell of srun --pty: %+v", l)
		}
	}
}
