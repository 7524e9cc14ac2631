package foreign

import "strings"

// hostFlags are about the machines of a job.
func hostFlags() []Spelling {
	const noRestriction = "write --hosts with the hosts to use"
	const allNodes = "ibrun uses all nodes of the allocation: leave it out, or choose nodes with --hosts and the ranks on " +
		"each with --ppn"
	return []Spelling{
		{Of: OpenMPI, Names: []string{"H", "host"}, Args: []string{"A,B:N"}, To: "--hosts=$1", convert: hostsOfOneSlot,
			Note: "a host without a number has one slot, as in mpirun: `A` becomes `A:1`"},
		{Of: Hydra, Names: []string{"hosts"}, Args: []string{"A,B:N"}, oneDash: true, To: "--hosts=$1", convert: hostsOfOneSlot,
			Note: "a host without a number has one slot, as in mpiexec; with two dashes, `--hosts A` is ibrun's own: " +
				"it needs `-n N` too"},
		{Of: Slurm, Names: []string{"w", "nodelist"}, Args: []string{"A[1-2],B"}, To: "--hosts=$1",
			Note: "srun starts the ranks if all hosts are of the Slurm job, else ssh"},
		{Of: OpenMPI, Names: []string{"hostfile"}, Args: []string{"FILE"}, To: "--hostfile=$1"},
		{Of: OpenMPI | Hydra, Names: []string{"machinefile", "machine-file", "default-hostfile"}, Args: []string{"FILE"},
			To: "--hostfile=$1"},
		{Of: Hydra, Names: []string{"f"}, Args: []string{"FILE"}, To: "--hostfile=$1"},
		{Of: Slurm, Names: []string{"F", "nodefile"}, Args: []string{"FILE"}, To: "--hostfile=$1",
			Note: "srun starts the ranks if all hosts are of the Slurm job, else ssh"},
		{Of: OpenMPI, Names: []string{"add-host", "add-hostfile"}, Args: []string{"HOSTS"},
			Instead: "a job of ibrun does not grow; write --hosts"},
		{Of: Slurm, Names: []string{"exclude"}, Args: []string{"HOSTS"}, Instead: noRestriction},
		{Of: OpenMPI | Hydra, Names: []string{"nolocal"}, Instead: noRestriction + ", without this one"},
		{Of: Hydra, Names: []string{"skip-launch-node"}, Instead: noRestriction + ", without this one"},
		{Of: Slurm, Names: []string{"N"}, Args: []string{"NODES"}, Instead: allNodes, Means: "the number of nodes"},
		{Of: Slurm, Names: []string{"nodes"}, Args: []string{"NODES"}, Instead: allNodes},
		{Of: OpenMPI, Names: []string{"N"}, Args: []string{"N"}, To: "--ppn=$1", Means: "the number of ranks on each node"},
		{Of: Slurm, Names: []string{"r"}, Args: []string{"N"}, Instead: "write -o OFFSET, which counts slots",
			Means: "the first node of the allocation to use"},
		{Of: Slurm, Names: []string{"relative"}, Args: []string{"N"}, Instead: "write -o OFFSET, which counts slots"},

		{Of: Hydra, Names: []string{"launcher", "bootstrap", "rmk"}, Args: []string{"NAME"}, convert: hydraLauncher,
			NoEffect: "ibrun finds the scheduler itself: it uses srun in a job of Slurm, and ssh elsewhere",
			Note:     "for ssh, slurm, pbs, lsf and user; other values are errors: `--launch-agent CMD`"},
		{Of: Hydra, Names: []string{"launcher-exec", "bootstrap-exec"}, Args: []string{"CMD"}, To: "--launch-agent=$1"},
		{Of: OpenMPI, Names: []string{"launch-agent"}, Args: []string{"orted"}, fits: func(s string) bool {
			return strings.HasSuffix(s, "orted") || strings.HasSuffix(s, "prted")
		}, Instead: "--launch-agent is here the command that reaches a host, such as 'ssh -p 2222'"},
		{Of: Hydra, Names: []string{"iface"}, Args: []string{"NAME"}, To: "--tcp-interfaces=$1"},
		{Of: Hydra, Names: []string{"enable-x"}, Instead: "write --launch-agent 'ssh -X'"},
		{Of: Hydra, Names: []string{"disable-x"}, NoEffect: "ibrun does not forward X11"},
		{Of: Hydra, Names: []string{"hybrid-hosts"}, Instead: "write --copy if the hosts do not share the program"},
		{Of: OpenMPI, Names: []string{"preload-binary"}, To: "--copy"},
		{Of: Slurm, Names: []string{"bcast"}, Args: []string{"FILE"}, optional: true, To: "--copy",
			Note: "FILE is chosen by ibrun",
			convert: func(v []string) (meaning, error) {
				if v[0] != "" {
					return instead("write --copy: ibrun chooses where the copy is, and removes it")
				}
				return to("--copy")
			}},
		{Of: OpenMPI, Names: []string{"s"}, To: "--copy", Means: "to copy the program to the hosts"},
		{Of: Slurm, Names: []string{"s"}, NoEffect: "ibrun shares cores if it has to",
			Means: "to share resources with other steps"},
		{Of: Slurm, Names: []string{"send-libs"}, Args: []string{"yes|no"}, optional: true,
			Instead: "ibrun copies programs only: build the program with -static, or copy its libraries"},
		{Of: OpenMPI, Names: []string{"preload-files"}, Args: []string{"FILES"},
			Instead: "ibrun copies programs only: use scp"},
	}
}

// hostsOfOneSlot adds the number of slots that Open MPI and hydra assume: 1. A host with :* has no number.
func hostsOfOneSlot(v []string) (meaning, error) {
	var hosts []string
	depth, begin := 0, 0
	for i := range len(v[0]) + 1 {
		switch {
		case i == len(v[0]) || v[0][i] == ',' && depth == 0:
			hosts = append(hosts, oneSlot(v[0][begin:i]))
			begin = i + 1
		case v[0][i] == '[':
			depth++
		case v[0][i] == ']':
			depth--
		}
	}
	return to("--hosts=" + strings.Join(hosts, ","))
}

func oneSlot(host string) string {
	if all, ok := strings.CutSuffix(host, ":*"); ok {
		return all
	}
	outside := host[strings.LastIndexByte(host, ']')+1:]
	switch strings.Count(outside, ":") {
	case 0:
		if host != "" {
			host += ":1"
		}
	case 1: // HOST:SLOTS
	default: // an IPv6 address without brackets
		host = "[" + host + "]:1"
	}
	return host
}

// hydraLauncher is hydra's -launcher.
func hydraLauncher(v []string) (meaning, error) {
	switch v[0] {
	case "ssh", "slurm", "pbs", "lsf", "user":
		return noEffect("ibrun finds the scheduler itself: it uses srun in a job of Slurm, and ssh elsewhere")
	}
	return instead("ibrun uses srun in a job of Slurm, and ssh elsewhere; for another way to reach a host, write " +
		"--launch-agent CMD")
}
