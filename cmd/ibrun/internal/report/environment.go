package report

// Shown are the variables that a report has: those that change how a job runs and hold nothing secret. No other variable is
// ever in a report.
func Shown() []string {
	return []string{"CUDA_VISIBLE_DEVICES", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "GOTRACEBACK",
		"IBRUN_PERF", "IBRUN_RDMA_DEVICES", "IBRUN_RDMA_EAGER", "IBRUN_RDMA_INLINE", "IBRUN_RDMA_PIECE", "IBRUN_RDMA_POOL",
		"IBRUN_RDMA_SLOT", "IBRUN_RDMA_STREAM", "IBRUN_RDMA_WINDOW", "IBRUN_SHM_STREAM", "IBRUN_TCP_EAGER", "IBRUN_TCP_INTERFACES",
		"IBRUN_TCP_PUSH", "IBRUN_TRANSPORT", "IBRUN_VERBS_PROVIDER", "LSB_JOBID", "MKL_NUM_THREADS", "OMP_NUM_THREADS",
		"OPENBLAS_NUM_THREADS", "PBS_JOBID", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS"}
}

// Environment picks the variables that may be shown.
func Environment(getenv func(string) string) []Variable {
	all := []Variable{}
	for _, name := range Shown() {
		if value := getenv(name); value != "" {
			all = append(all, Variable{name, value})
		}
	}
	return all
}
