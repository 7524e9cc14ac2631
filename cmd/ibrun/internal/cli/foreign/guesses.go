package foreign

import "slices"

// Guess is what users write who know other tools, and what to write here.
type Guess struct {
	// Names are the words. They mean the same.
	Names []string
	// Write is what to write instead.
	Write string
}

// FlagGuesses returns names of flags, without dashes, that belong to no launcher of the table.
func FlagGuesses() []Guess {
	return []Guess{
		{[]string{"processes", "num-processes", "procs", "num-procs", "nprocs", "nproc", "ranks", "num-ranks", "nranks", "workers",
			"num-workers"}, "-n N"},
		{[]string{"num-nodes", "machines", "num-machines", "servers", "host-list", "hostlist", "nodes-list", "remote"},
			"--hosts A,B, and --ppn N for the number of ranks on each"},
		{[]string{"ranks-per-node", "procs-per-node", "processes-per-node", "per-node"}, "--ppn N"},
		{[]string{"cpus", "cores", "cores-per-rank", "num-threads", "threads-per-rank", "depth"}, "--cpus-per-rank N"},
		{[]string{"num-gpus", "cuda"}, "--map-by gpu, which gives each rank a GPU"},
		{[]string{"affinity", "pin", "pinning", "bind"}, "--bind-to core, numa, package or none"},
		{[]string{"directory", "workdir", "work-dir", "working-directory", "cwd", "cd"}, "--wdir DIR"},
		{[]string{"environment", "setenv", "set-env", "envvar"}, "-x NAME=VALUE"},
		{[]string{"log", "logs", "log-file", "logfile", "stdout", "stderr"}, "--output PATTERN, such as out.%r"},
		{[]string{"prefix-output", "output-prefix", "show-rank", "tag"}, "--label"},
		{[]string{"time-limit", "walltime", "max-time", "limit"}, "--timeout TIME"},
		{[]string{"interface", "interfaces", "nic", "btl-tcp-if"}, "--tcp-interfaces LIST"},
		{[]string{"fabric", "provider", "protocol", "btl"}, "--transport LIST"},
		{[]string{"prometheus", "metrics-port", "monitor"}, "--metrics :PORT"},
		{[]string{"password", "key", "secret", "token"}, "--secret-file FILE, which ibrun secret FILE makes"},
		{[]string{"rank", "node-id", "process-id"}, "--node K/N, if you start ibrun on each node"},
		{[]string{"ssh", "rsh", "agent"}, "--launch-agent CMD, such as 'ssh -p 2222'"},
		{[]string{"tls", "ssl"}, "--encrypt"},
	}
}

// CommandGuesses returns first words that are not commands of ibrun.
func CommandGuesses() []Guess {
	return []Guess{
		{[]string{"run", "exec", "start", "launch", "spawn", "submit", "mpirun", "mpiexec", "orterun", "prun", "prterun", "srun",
			"torchrun", "jsrun", "aprun"}, "ibrun -n 4 PROGRAM: the program follows the flags, without a command before it"},
		{[]string{"status", "list", "jobs", "job", "squeue", "qstat", "sstat", "ompi-ps", "orte-ps"}, "ibrun ps"},
		{[]string{"stop", "cancel", "abort", "scancel", "qdel", "end"},
			"kill PID, with the process of an ibrun that ibrun ps lists: it ends the job"},
		{[]string{"logs", "log"}, "--output PATTERN when you start the job: ibrun -n 4 --output out.%r PROGRAM"},
		{[]string{"attach", "stack", "stacks", "trace", "backtrace", "deadlock", "padb"}, "ibrun hang"},
		{[]string{"monitor", "watch-job", "htop", "usage", "stats"}, "ibrun top"},
		{[]string{"info", "ompi_info", "mpichversion"}, "ibrun version, or ibrun doctor for this machine"},
		{[]string{"check", "diagnose", "diag", "health", "probe", "ping"}, "ibrun doctor"},
		{[]string{"topology", "lstopo", "hwloc", "numa", "bindings"}, "ibrun topo"},
		{[]string{"benchmark", "osu", "imb", "perftest", "latency", "bandwidth"}, "ibrun bench"},
		{[]string{"tune", "simulate", "versus"}, "ibrun bench and this word"},
		{[]string{"manual", "manpage", "docs"}, "ibrun man"},
		{[]string{"commands", "flags", "options"}, "ibrun help"},
		{[]string{"build", "compile"}, "ibrun -n 4 DIR: ibrun builds the Go package in DIR first"},
		{[]string{"config", "configure", "init", "setup"},
			"IBRUN_NAME=VALUE for a flag --name: ibrun has no other configuration; ibrun doctor checks the machine"},
		{[]string{"keygen", "key"}, "ibrun secret FILE"},
		{[]string{"rxe", "rdma", "softroce", "soft_roce", "roce"}, "ibrun soft-roce"},
	}
}

// Find returns what to write instead of a word.
func Find(guesses []Guess, word string) (write string, found bool) {
	i := slices.IndexFunc(guesses, func(g Guess) bool { return slices.Contains(g.Names, word) })
	if i < 0 {
		return "", false
	}
	return guesses[i].Write, true
}
