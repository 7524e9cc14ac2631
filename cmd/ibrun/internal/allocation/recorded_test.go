package allocation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded returns the variables that a real Slurm has set, in a job on the hosts n1 and n2, and more.
func recorded(t *testing.T, name string, more ...string) func(string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "slurm-22.05", name))
	if err != nil {
		t.Fatal(err)
	}
	return env(append(strings.Split(strings.TrimSpace(string(text)), "\n"), more...)...)
}

// TestFindRecorded checks what ibrun does in jobs and steps of a real Slurm.
func TestFindRecorded(t *testing.T) {
	const four = "srun has started 4 processes of ibrun ("
	for name, c := range map[string]struct{ want, err string }{
		"salloc-N2":                   {want: "Slurm job 2 by srun: n1:1 n2:1"},
		"salloc-N2-n4":                {want: "Slurm job 1 by srun: n1:3 n2:1"},
		"salloc-N2-n3-c2":             {want: "Slurm job 3 by srun: n1:2 n2:1"},
		"salloc-het":                  {want: "Slurm job 9 by srun: n1:1 n2:2 groups=2 0 1"},
		"sbatch-N2-n4":                {want: "Slurm job 5 by srun: n1:3 n2:1 here"},
		"sbatch-N2-ntasks-per-node-2": {want: "Slurm job 6 by srun: n1:2 n2:2 here"},
		"srun-n1":                     {want: "Slurm job 14 by srun: n1:1 here"},
		"srun-n4":                     {err: four + "SLURM_STEP_NUM_TASKS=4)"},
		"srun-n4-pmi2":                {err: four + "PMI_SIZE=4)"},
		"srun-n4-pmix":                {err: four + "SLURM_STEP_NUM_TASKS=4)"},
		"srun-n4-pty":                 {err: four + "SLURM_STEP_NUM_TASKS=4)"},
		"srun-het-0":                  {err: "srun has started 3 processes of ibrun (SLURM_STEP_NUM_TASKS=3)"},
		"srun-het-2":                  {err: "srun has started 3 processes of ibrun (SLURM_STEP_NUM_TASKS=3)"},
	} {
		a, err := Find(Options{}, recorded(t, name), "login")
		if c.err == "" && (err != nil || summary(a) != c.want) {
			t.Errorf("%s: %s, %v; want %s", name, summary(a), err, c.want)
		}
		if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
			t.Errorf("%s: %s, %v; want %s", name, summary(a), err, c.err)
		}
	}
	a, err := Find(Options{}, recorded(t, "srun-n1"), "login")
	const note = "ibrun runs in a step that has 1 of the 2 nodes of Slurm job 14, and uses no others"
	if err != nil || len(a.Notes) != 1 || !strings.HasPrefix(a.Notes[0], note) {
		t.Errorf("srun -n 1 in a job of two nodes: %v, %v", a, err)
	}
	a, err = Find(Options{Terminal: true}, recorded(t, "srun-n4-pty"), "login")
	if s := summary(a); err != nil || s != "Slurm job 13 by srun: n1:3 n2:1 here" {
		t.Errorf("in the shell of srun --pty: %s, %v", s, err)
	}
}
