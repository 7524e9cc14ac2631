package pmi

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
)

// env returns a getenv for words NAME=VALUE.
func env(words ...string) func(string) string {
	m := make(map[string]string)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestFromEnvAlone(t *testing.T) {
	for name, getenv := range map[string]func(string) string{
		"no launcher":              env(),
		"mpirun -n 1":              env("OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "PMIX_RANK=0", "PMIX_NAMESPACE=x"),
		"mpirun -n 1 inside Slurm": env("OMPI_COMM_WORLD_SIZE=1", "SLURM_PROCID=0", "SLURM_NTASKS=4"),
		"srun -n 1":                env("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=8"),
		"salloc, no step":          env("SLURM_NTASKS=8", "SLURM_JOB_ID=7"),
		"sbatch, no step": env("SLURM_NTASKS=8", "SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_LOCALID=0",
			"SLURM_NODEID=0"),
		"salloc's shell on a node": env("SLURM_NTASKS=8", "SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290"),
		"child of a lone rank":     env("PMI_FD=999999", "PMI_RANK=0", "PMI_SIZE=1"),
	} {
		if c, err := FromEnv(getenv); c != nil || err != nil {
			t.Errorf("%s: %v, %v; want neither client nor error", name, c, err)
		}
	}
}

func TestFromEnvTellsTheFix(t *testing.T) {
	prog := os.Args[0]
	for name, test := range map[string]struct {
		getenv              func(string) string
		evidence, fix, more string
	}{
		"srun without --mpi=pmi2": {env("SLURM_PROCID=3", "SLURM_NTASKS=4"),
			"SLURM_NTASKS=4", "srun --mpi=pmi2 -n 4 " + prog, ""},
		"step smaller than the job": {env("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_NTASKS=8"),
			"SLURM_STEP_NUM_TASKS=2", "srun --mpi=pmi2 -n 2 " + prog, ""},
		"srun --mpi=pmix": {env("SLURM_PROCID=1", "SLURM_NTASKS=2", "PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.1.0"),
			"SLURM_NTASKS=2", "srun --mpi=pmi2 -n 2 " + prog, ""},
		"Open MPI": {env("OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0", "PMIX_NAMESPACE=x"),
			"OMPI_COMM_WORLD_SIZE=2", "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2", "ibrun -n 2 " + prog},
		"prterun": {env("PMIX_RANK=0", "PMIX_NAMESPACE=prte-1"),
			"PMIX_NAMESPACE=prte-1", "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2", "env -u PMIX_NAMESPACE"},
		"bare PMIx rank": {env("PMIX_RANK=0"), "PMIX_RANK=0", "start it with ibrun", ""},
		"mpirun_rsh":     {env("MV2_COMM_WORLD_SIZE=3"), "MV2_COMM_WORLD_SIZE=3", "ibrun -n 3 " + prog, ""},
		"jsrun":          {env("JSM_NAMESPACE_SIZE=3"), "JSM_NAMESPACE_SIZE=3", "ibrun -n 3 " + prog, ""},
		"Flux": {env("FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=2"), "FLUX_JOB_SIZE=2", "flux run -o pmi=simple -n 2 " + prog,
			""},
		"no descriptor": {env("PMI_RANK=0", "PMI_SIZE=2"), "PMI_SIZE=2", "ibrun -n 2 " + prog, ""},
		"descriptor was closed": {env("PMI_FD=999999", "PMI_RANK=0", "PMI_SIZE=2"),
			"PMI_SIZE=2", "ibrun -n 2 " + prog, "PMI_FD=999999 is not an open stream socket"},
		"descriptor is something else": {env("PMI_FD=2", "PMI_RANK=0", "PMI_SIZE=2"),
			"PMI_SIZE=2", "ibrun -n 2 " + prog, "PMI_FD=2 is"},
		"size is not a number": {env("SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=many"), "SLURM_NTASKS=many",
			"srun --mpi=pmi2", ""},
	} {
		c, err := FromEnv(test.getenv)
		var launch *LaunchError
		if c != nil || !errors.As(err, &launch) {
			t.Errorf("%s: %v, %v; want a LaunchError", name, c, err)
			continue
		}
		if launch.Evidence != test.evidence || !strings.Contains(launch.Fix, test.fix) || !strings.Contains(err.Error(),
			test.more) ||
			strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFromEnvRefusesBadNumbers(t *testing.T) {
	good := map[string]string{"PMI_PORT": "127.0.0.1:1", "PMI_ID": "0"}
	for name, value := range map[string]string{"PMI_FD": "x", "PMI_ID": "-1", "PMI_PORT": "nowhere"} {
		m := maps.Clone(good)
		m[name] = value
		c, err := FromEnv(func(name string) string { return m[name] })
		if c != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v, %v", name, value, c, err)
		}
	}
}
