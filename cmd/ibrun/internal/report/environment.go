package report

import (
	"slices"

	"github.com/ibrun/ibrun/internal/tunables"
)

// EnvironmentVariables returns the sorted names of the variables that a report shows: those that change how a job runs and hold
// no secret. A report never contains another variable.
func EnvironmentVariables() []string {
	names := append(tunables.Variables(),
		"CUDA_VISIBLE_DEVICES", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "GOTRACEBACK", "IBRUN_PERF",
		"IBRUN_VERBS_PROVIDER", "LSB_JOBID", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PBS_JOBID",
		"ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS")
	slices.Sort(names)
	return names
}

// Environment returns those of the [EnvironmentVariables] that are set.
func Environment(getenv func(string) string) []Variable {
	all := []Variable{}
	for _, name := range EnvironmentVariables() {
		if value := getenv(name); value != "" {
			all = append(all, Variable{name, value})
		}
	}
	return all
}
