package foreign

// slurmFlags are the remaining flags of srun.
func slurmFlags() []Spelling {
	const allocation = "it belongs to the allocation: give it to salloc or sbatch"
	const gpu = "write --map-by gpu, which gives each rank a GPU, or give it to salloc or sbatch"
	return []Spelling{
		{Of: Slurm, Names: []string{"mpi"}, Args: []string{"TYPE"}, convert: func(v []string) (meaning, error) {
			if v[0] == "list" {
				return instead("ibrun offers its ranks PMI-1, and has nothing to choose")
			}
			return noEffect("ibrun connects its ranks itself")
		}, NoEffect: "ibrun connects its ranks itself"},
		{Of: Slurm, Names: []string{"overlap"},
			NoEffect: "ibrun uses the cores of the allocation also if other steps use them"},
		{Of: Slurm, Names: []string{"exclusive", "exact"}, Args: []string{"user"}, optional: true,
			Instead: "write -o OFFSET to run several jobs in one allocation, each on slots of its own"},
		{Of: Slurm, Names: []string{"whole"}, NoEffect: "ibrun uses all cores of the allocation"},
		{Of: Slurm,
			Names: []string{"J", "job-name", "A", "account", "p", "partition",
				"qos", "mem", "mem-per-cpu", "mem-per-gpu", "C", "constraint",
				"gres", "licenses", "L",
				"reservation", "dependency", "begin", "deadline", "nice", "comment", "mail-type", "mail-user", "cluster",
				"clusters", "M", "wckey", "switches", "tmp", "mincpus", "B", "extra-node-info", "G", "gpus", "gpus-per-node",
				"gpus-per-socket", "priority", "signal", "acctg-freq", "network", "bb", "bbf", "power", "core-spec", "S",
				"thread-spec", "cpu-freq", "jobid", "het-group", "container"}, Args: []string{"VALUE"}, Instead: allocation},
		{Of: Slurm, Names: []string{"immediate", "I"}, Args: []string{"SECONDS"}, optional: true,
			NoEffect: "the allocation is there already"},
		{Of: Slurm, Names: []string{"hold", "contiguous", "spread-job", "use-min-nodes", "reboot", "no-requeue", "requeue"},
			Instead: allocation},
		{Of: Slurm, Names: []string{"gpus-per-task", "gpu-bind", "ntasks-per-gpu", "tres-per-task", "tres-bind"},
			Args: []string{"VALUE"}, Instead: gpu},
		{Of: Slurm, Names: []string{"gpu-freq"}, Args: []string{"VALUE"}, Instead: allocation},
		{Of: Slurm, Names: []string{"hint", "threads-per-core"}, Args: []string{"VALUE"},
			Instead: "write --bind-to core or --bind-to hwthread"},
		{Of: Slurm, Names: []string{"prolog", "epilog", "task-prolog", "task-epilog"}, Args: []string{"FILE"},
			Instead: "write a shell script that starts the program"},
		{Of: Slurm, Names: []string{"propagate"}, Args: []string{"LIMITS"}, optional: true,
			NoEffect: "ranks have the limits of ibrun"},
		{Of: Slurm, Names: []string{"T", "threads", "msg-timeout"}, Args: []string{"N"}, NoEffect: "it is a detail of srun"},
		{Of: Slurm, Names: []string{"debugger-test", "no-allocate", "Z", "slurmd-debug"},
			Instead: "it is a detail of srun: leave it out"},
		{Of: Slurm, Names: []string{"uid", "gid"}, Args: []string{"ID"}, Instead: "write: setpriv --reuid ID ibrun ..."},
	}
}
