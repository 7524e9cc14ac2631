package foreign

import "strings"

// placementFlags are about cores, memory and devices. Package placement accepts many of them under their own names.
func placementFlags() []Spelling {
	const affinity = "write: taskset -c $1 ibrun ..."
	return []Spelling{
		{Of: Hydra, Names: []string{"ppn", "perhost", "grr"}, Args: []string{"N"}, To: "--ppn=$1"},
		{Of: OpenMPI | TACC, Names: []string{"npernode"}, telling: true, Args: []string{"N"}, To: "--ppn=$1"},
		{Of: Slurm, Names: []string{"ntasks-per-node", "tasks-per-node"}, telling: true, Args: []string{"N"}, To: "--ppn=$1"},
		{Of: OpenMPI, Names: []string{"pernode"}, To: "--ppn=1"},
		{Of: Hydra, Names: []string{"rr"}, To: "--map-by=node"},
		{Of: OpenMPI, Names: []string{"npersocket"}, Args: []string{"N"}, To: "--map-by=ppr:$1:package"},
		{Of: Slurm, Names: []string{"ntasks-per-socket"}, Args: []string{"N"}, To: "--map-by=ppr:$1:package"},
		{Of: Slurm, Names: []string{"ntasks-per-core"}, Args: []string{"N"}, To: "--map-by=ppr:$1:core"},
		{Of: OpenMPI, Names: []string{"ppr"}, Args: []string{"N:OBJECT"}, To: "--map-by=ppr:$1"},
		{Of: OpenMPI, Names: []string{"cpus-per-proc", "cpus-per-rank"}, Args: []string{"N"}, To: "--cpus-per-rank=$1"},
		{Of: Slurm, Names: []string{"cpus-per-task"}, telling: true, Args: []string{"N"}, To: "--cpus-per-rank=$1"},
		{Of: TACC, Names: []string{"tpp"}, telling: true, Args: []string{"N"}, To: "--cpus-per-rank=$1"},

		{Of: OpenMPI | Hydra, Names: []string{"map-by"}, Args: []string{"OBJECT"}, To: "--map-by=$1"},
		{Of: OpenMPI, Names: []string{"bynode"}, To: "--map-by=node"},
		{Of: OpenMPI, Names: []string{"byslot"}, To: "--map-by=slot"},
		{Of: OpenMPI, Names: []string{"bycore"}, To: "--map-by=core"},
		{Of: OpenMPI, Names: []string{"bysocket"}, To: "--map-by=package"},
		{Of: OpenMPI, Names: []string{"bynuma"}, To: "--map-by=numa"},
		{Of: OpenMPI, Names: []string{"rank-by"}, Args: []string{"ORDER"}, convert: rankBy,
			NoEffect: "ibrun numbers ranks in the order of slots",
			Note:     "for slot and span; other values are errors: `--map-by` or `--rank-file`"},
		{Of: Slurm, Names: []string{"m"}, Args: []string{"HOW"}, To: "--distribution=$1", fits: isDistribution,
			Means: "the distribution of ranks to nodes"},
		{Of: Torchrun, Names: []string{"m"}, Args: []string{"MODULE"}, Instead: "write the program: python3 -m $1",
			fits: func(s string) bool { return !isDistribution(s) }, Means: "a module of Python"},
		{Of: Slurm, Names: []string{"distribution"}, Args: []string{"HOW"}, To: "--distribution=$1",
			Note: "cyclic is `--map-by node`, block:cyclic is `--map-by package`, block is `--map-by slot`"},
		{Of: OpenMPI | Hydra, Names: []string{"rankfile", "rf"}, Args: []string{"FILE"}, To: "--rank-file=$1"},
		{Of: Hydra, Names: []string{"rankmap"}, Args: []string{"LIST"},
			Instead: "write --rank-file FILE with lines such as: rank 0=host slot=*"},

		{Of: OpenMPI | Hydra, Names: []string{"bind-to"}, Args: []string{"OBJECT"}, To: "--bind-to=$1"},
		{Of: Hydra, Names: []string{"binding"}, Args: []string{"OBJECT"},
			Instead: "write --bind-to core, numa, package or none"},
		{Of: OpenMPI, Names: []string{"bind-to-none"}, To: "--bind-to=none"},
		{Of: OpenMPI, Names: []string{"bind-to-core"}, To: "--bind-to=core"},
		{Of: OpenMPI, Names: []string{"bind-to-socket"}, To: "--bind-to=package"},
		{Of: Slurm, Names: []string{"cpu-bind", "cpu_bind"}, telling: true, Args: []string{"HOW"}, To: "--cpu-bind=$1",
			Note: "none, cores, sockets, ldoms and threads are `--bind-to`, verbose is `--report-bindings`"},
		{Of: OpenMPI, Names: []string{"cpu-set", "cpu-list"}, Args: []string{"LIST"}, Instead: affinity},
		{Of: OpenMPI, Names: []string{"use-hwthread-cpus"}, To: "--map-by=hwthread --bind-to=hwthread"},
		{Of: Slurm, Names: []string{"mem-bind", "mem_bind"}, Args: []string{"HOW"}, convert: memBind,
			NoEffect: "ibrun allocates memory near the cores of a rank", Note: "for local; other values are errors: `numactl`"},
		{Of: Hydra, Names: []string{"membind"}, Args: []string{"HOW"}, convert: memBind,
			NoEffect: "ibrun allocates memory near the cores of a rank",
			Note:     "for local and firsttouch; other values are errors: `numactl`"},

		{Of: OpenMPI, Names: []string{"oversubscribe"}, telling: true, NoEffect: "more ranks than cores are allowed",
			To: "--oversubscribe"},
		{Of: OpenMPI, Names: []string{"nooversubscribe"}, To: "--nooversubscribe"},
		{Of: Slurm, Names: []string{"O", "overcommit"}, NoEffect: "more ranks than cores are allowed"},
		{Of: Slurm, Names: []string{"share"}, NoEffect: "ibrun shares cores if it has to"},
		{Of: OpenMPI, Names: []string{"report-bindings"}, To: "--report-bindings"},
		{Of: OpenMPI, Names: []string{"display-map", "display-allocation", "display-devel-map"}, To: "--report-bindings"},
		{Of: OpenMPI, Names: []string{"display"}, Args: []string{"WHAT"}, To: "--display=$1",
			Note: "bindings and map are `--report-bindings`"},
		{Of: OpenMPI, Names: []string{"display-topo"}, Instead: "write: ibrun topo"},
		{Of: Hydra, Names: []string{"print-rank-map"}, To: "--report-bindings"},
	}
}

func isDistribution(s string) bool {
	head, _, _ := strings.Cut(s, ":")
	switch head {
	case "block", "cyclic", "arbitrary", "*":
		return true
	}
	return strings.HasPrefix(head, "plane=")
}

// rankBy is Open MPI's --rank-by.
func rankBy(v []string) (meaning, error) {
	if v[0] == "slot" || v[0] == "span" {
		return noEffect("ibrun numbers ranks in the order of slots")
	}
	return instead("ranks are numbered in the order of slots; write --map-by %s, or --rank-file FILE", v[0])
}

// memBind is the policy for memory of Slurm and hydra.
func memBind(v []string) (meaning, error) {
	for word := range strings.SplitSeq(v[0], ",") {
		switch word {
		case "local", "firsttouch", "verbose", "v", "quiet", "q":
		default:
			return instead("ibrun allocates memory near the cores of a rank; for another policy, write: numactl " +
				"--interleave=all ibrun ...")
		}
	}
	return noEffect("ibrun allocates memory near the cores of a rank")
}
