package foreign

import (
	"slices"
	"strings"
)

// launcherFlags are about the launchers themselves.
func launcherFlags() []Spelling {
	const debugger = "write --gdb RANKS or --dlv RANKS"
	return []Spelling{
		{Of: OpenMPI, Names: []string{"allow-run-as-root"}, NoEffect: "ibrun runs for every user"},
		{Of: OpenMPI, Names: []string{"mca", "gmca", "prtemca", "pmixmca", "omca"}, Args: []string{"NAME", "VALUE"},
			convert: mca,
			To:      "--transport=LIST", Note: "and other flags: see the table of parameters"},
		{Of: OpenMPI, Names: []string{"am", "tune"}, Args: []string{"FILES"},
			Instead: "write the parameters that matter as flags of ibrun: " +
				"--transport, --tcp-interfaces, --map-by"},
		{Of: OpenMPI, Names: []string{"personality"}, Args: []string{"NAME"},
			NoEffect: "ibrun starts every program in the same way"},
		{Of: OpenMPI, Names: []string{"runtime-options", "rtos"}, Args: []string{"LIST"},
			Instead: "ibrun has flags of its own: --dry-run, --dlv, --failure-grace"},
		{Of: OpenMPI, Names: []string{"with-ft"}, Args: []string{"TYPE"}, Instead: "ibrun ends the job when a rank fails"},
		{Of: OpenMPI, Names: []string{"debug", "tv", "stop-on-exec", "stop-in-init", "stop-in-app"}, Instead: debugger},
		{Of: OpenMPI, Names: []string{"debugger"}, Args: []string{"LIST"}, Instead: debugger},
		{Of: OpenMPI, Names: []string{"xterm"}, Args: []string{"RANKS"},
			Instead: "write --gdb RANKS, or start xterm: ibrun -n 2 xterm -e gdb ./app"},
		{Of: Hydra, Names: []string{"tvsu", "gdba"}, Instead: debugger},
		{Of: OpenMPI, Names: []string{"debug-devel", "debug-daemons", "debug-daemons-file", "leave-session-attached"},
			Instead: "-v prints what ibrun does"},
		{Of: OpenMPI, Names: []string{"d"}, Instead: "-v prints what ibrun does", Means: "to debug the launcher"},
		{Of: Slurm, Names: []string{"d"}, Args: []string{"LIST"}, Instead: "it belongs to the allocation: give it to sbatch",
			Means: "a list of jobs to wait for"},
		{Of: OpenMPI, Names: []string{"report-pid", "report-uri"}, Args: []string{"FILE"},
			Instead: "ibrun ps lists the running jobs and their processes"},
		{Of: OpenMPI, Names: []string{"show-progress", "novm", "no-ready-msg", "use-regexp", "do-not-resolve"},
			NoEffect: "ibrun has no daemons to wait for"},
		{Of: OpenMPI, Names: []string{"index-argv-by-rank"}, Instead: "write: ibrun ... sh -c 'exec -a app-$PMI_RANK ./app'"},
		{Of: OpenMPI, Names: []string{"ompi-server", "hnp", "dvm-uri"}, Args: []string{"URI"},
			Instead: "jobs of ibrun do not connect to each other"},
		{Of: OpenMPI, Names: []string{"dvm"}, Instead: "ibrun starts what a job needs, and ends it with the job: leave it out"},

		{Of: Hydra, Names: []string{"demux", "topolib"}, Args: []string{"NAME"},
			NoEffect: "it is a detail of MPICH's launcher"},
		{Of: Hydra, Names: []string{"pmi-port", "disable-hostname-propagation"},
			NoEffect: "it is a detail of MPICH's launcher"},
		{Of: Hydra, Names: []string{"order-nodes"}, Args: []string{"ORDER"},
			Instead: "write --hosts with the hosts in the order to use"},
		{Of: Hydra, Names: []string{"localhost"}, Args: []string{"NAME"}, Instead: "write --node-name NAME"},
		{Of: Hydra, Names: []string{"usize"}, Args: []string{"N"},
			Instead: "ranks of ibrun start no further ranks: leave it out"},
		{Of: Hydra, Names: []string{"nameserver"}, Args: []string{"HOST"},
			Instead: "jobs of ibrun do not connect to each other"},
		{Of: Hydra, Names: []string{"gpus-per-proc"}, Args: []string{"N"},
			Instead: "write --map-by gpu, which gives each rank a GPU"},
		{Of: Hydra, Names: []string{"profile"}, Instead: "write --pprof FILE or --report"},
		{Of: Hydra, Names: []string{"trace"}, Args: []string{"LIBRARY"}, oneDash: true,
			fits:    func(s string) bool { return !strings.HasSuffix(s, ".json") },
			Instead: "write --trace FILE.json", Means: "a library that records the calls"},
		{Of: Hydra, Names: []string{"check_mpi", "check-mpi"}, To: "--check"},
		{Of: Hydra, Names: []string{"s"}, Args: []string{"RANKS"}, Instead: "rank 0 reads standard input",
			Means: "which ranks read standard input"},
	}
}

// Parameters returns the MCA parameters of Open MPI that --mca translates: Names are theirs, and their value is $1.
func Parameters() []Spelling {
	return []Spelling{
		{Names: []string{"btl"}, Args: []string{"LIST"}, To: "--transport=$1", convert: btl,
			Note: "vader and sm are shm; openib, ofi and uct are rdma"},
		{Names: []string{"pml"}, Args: []string{"NAME"}, NoEffect: "ibrun uses RDMA where hosts have it",
			convert: onlyValues("--transport LIST, a list of shm, tcp and rdma", "ibrun uses RDMA where hosts have it", "ob1", "ucx",
				"cm"), Note: "for ob1, ucx and cm; other values are errors"},
		{Names: []string{"btl_tcp_if_include"}, Args: []string{"LIST"}, To: "--tcp-interfaces=$1"},
		{Names: []string{"btl_tcp_if_exclude"}, Args: []string{"LIST"}, To: "--tcp-interfaces=^$1",
			convert: func(v []string) (meaning, error) {
				return to("--tcp-interfaces=^" + strings.ReplaceAll(v[0], ",", ",^"))
			}},
		{Names: []string{"plm_rsh_agent", "plm_ssh_agent"}, Args: []string{"CMD"}, To: "--launch-agent=$1"},
		{Names: []string{"orte_default_hostfile", "prte_default_hostfile"}, Args: []string{"FILE"}, To: "--hostfile=$1"},
		{Names: []string{"rmaps_base_oversubscribe", "rmaps_default_mapping_policy"}, Args: []string{"1"},
			convert:  onlyValues("--map-by", "ibrun does so anyway", "1", "true", ":oversubscribe"),
			NoEffect: "more ranks than cores are allowed"},
		{Names: []string{"orte_base_help_aggregate", "plm_rsh_no_tree_spawn", "plm_ssh_no_tree_spawn",
			"btl_vader_single_copy_mechanism",
			"btl_sm_single_copy_mechanism", "btl_base_warn_component_unused", "btl_openib_warn_default_gid_prefix",
			"btl_openib_allow_ib", "mpi_warn_on_fork", "mpi_yield_when_idle", "orte_keep_fqdn_hostnames"},
			Args:     []string{"VALUE"},
			NoEffect: "it is a detail of Open MPI"},
	}
}

// mca is --mca NAME VALUE.
func mca(v []string) (meaning, error) {
	name, value := v[0], ""
	if len(v) > 1 {
		value = v[1]
	} else {
		name, value, _ = strings.Cut(v[0], "=")
	}
	for _, p := range Parameters() {
		if slices.Contains(p.Names, name) {
			return p.translate([]string{value})
		}
	}
	return instead("%s is a parameter of Open MPI, whose programs ibrun does not connect: leave it out", name)
}

// onlyValues accepts values that have no effect here, for this reason.
func onlyValues(flag, reason string, values ...string) func([]string) (meaning, error) {
	return func(v []string) (meaning, error) {
		if slices.Contains(values, v[0]) {
			return noEffect(reason)
		}
		return instead("write %s", flag)
	}
}

// btl is the list of transports of Open MPI.
func btl(v []string) (meaning, error) {
	names := map[string]string{"self": "", "vader": "shm", "sm": "shm", "tcp": "tcp", "openib": "rdma", "ofi": "rdma", "uct": "rdma"}
	list, exclude := strings.CutPrefix(v[0], "^")
	var chosen []string
	for word := range strings.SplitSeq(list, ",") {
		name, known := names[word]
		if !known {
			return instead("unknown transport %q: write --transport with a list of shm, tcp and rdma", word)
		}
		if name != "" && !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	if exclude {
		excluded := chosen
		chosen = nil
		for _, name := range []string{"shm", "rdma", "tcp"} {
			if !slices.Contains(excluded, name) {
				chosen = append(chosen, name)
			}
		}
	}
	if len(chosen) == 0 {
		return instead("no transport is left: write --transport with a list of shm, tcp and rdma")
	}
	return to("--transport=" + strings.Join(chosen, ","))
}
