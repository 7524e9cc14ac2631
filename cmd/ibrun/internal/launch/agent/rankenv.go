package agent

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// rankFDs are the descriptors that a rank inherits beside its standard streams. The one for PMI has a number higher than those of
// files that the rank opens itself, because its end of file shows that the rank has begun to exit: see [exitWatcher].
type rankFDs struct{ link, pmi, record int }

// spareFDs is how many descriptors above those of a rank ForkExec needs to move them to their numbers.
const spareFDs = 8

// newRankFDs returns the descriptors for a limit of open files: 100 and 101, or the highest possible ones.
func newRankFDs(limit uint64) rankFDs {
	pmi := 100
	if limit < uint64(pmi+2+spareFDs) {
		pmi = int(limit) - 2 - spareFDs
	}
	return rankFDs{link: 3, pmi: pmi, record: pmi + 1}
}

// RankEnv returns the environment of the rank at index local of the task: the variables that the user has set, without those of
// a launcher that started ibrun itself, and the variables that describe this rank. Each variable occurs once. maxFiles is the
// limit of open files.
func RankEnv(t *protocol.Task, local int, maxFiles uint64) []string {
	env := append(jobVariables(t, local, newRankFDs(maxFiles)), slurmVariables(t, local)...)
	seen := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		seen[name] = true
	}
	for _, given := range [][]string{t.Programs[t.Ranks[local].Program].Env, t.Env} {
		for _, v := range slices.Backward(given) { // the last value counts
			name, _, _ := strings.Cut(v, "=")
			if !seen[name] && !isLauncherVariable(name) {
				env = append(env, v)
			}
			seen[name] = true
		}
	}
	for _, v := range t.Ranks[local].Env {
		if name, _, _ := strings.Cut(v, "="); !seen[name] {
			env = append(env, v)
		}
	}
	if t.Size > 1 && !seen[openMPIServer] {
		// A program of Open MPI that finds no PMIx would be a world of one. Up to version 4 it fails if a variable names a server to
		// contact that is not there. Version 5 prints a warning because it finds the variables of PMI.
		env = append(env, openMPIServer+"=file:/ibrun-does-not-connect-ranks-of-Open-MPI-use-mpirun")
	}
	if t.Ranks[local].Oversubscribed && !seen["GOMAXPROCS"] {
		// The rank's share is less than one processor. A Go program that sees several processors would start threads that
		// compete with the other ranks.
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

// slurmVariables returns the variables by which programs in a Slurm job identify their rank. Those that the agent has inherited
// are of its own task.
func slurmVariables(t *protocol.Task, local int) []string {
	if !slices.ContainsFunc(t.Env, func(v string) bool { return strings.HasPrefix(v, "SLURM_JOB_ID=") }) {
		return nil
	}
	return []string{"SLURM_PROCID=" + strconv.Itoa(t.Ranks[local].Rank), "SLURM_LOCALID=" + strconv.Itoa(local),
		"SLURM_NODEID=" + strconv.Itoa(t.Node-t.FirstNode)}
}

// openMPIServer is the variable by which processes of Open MPI that no launcher has started find a server.
const openMPIServer = "OMPI_MCA_ess_singleton_server"

// isLauncherVariable reports whether launchers set this variable to identify a rank or a job.
func isLauncherVariable(name string) bool {
	for _, prefix := range []string{"PMI_", "PMI2_", "PMIX_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	// These variables of ibrun are removed as well, so that a rank can start a job of its own.
	return name == "IBRUN_FD" || name == "IBRUN_RENDEZVOUS" || name == "IBRUN_NODE"
}

// jobVariables returns the variables by which programs identify their rank: those of PMI and ibrun, then those that programs of
// MPICH, Open MPI, MVAPICH and torchrun read.
func jobVariables(t *protocol.Task, local int, fds rankFDs) []string {
	rank, size := strconv.Itoa(t.Ranks[local].Rank), strconv.Itoa(t.Size)
	localRank, localSize := strconv.Itoa(local), strconv.Itoa(len(t.Ranks))
	return []string{
		"PMI_FD=" + strconv.Itoa(fds.pmi), "PMI_RANK=" + rank, "PMI_SIZE=" + size, "PMI_JOBID=" + t.JobID, "PMI_HOSTNAME=" + t.Host,
		"IBRUN_FD=" + strconv.Itoa(fds.link),
		"MPI_LOCALRANKID=" + localRank, "MPI_LOCALNRANKS=" + localSize,
		"OMPI_COMM_WORLD_RANK=" + rank, "OMPI_COMM_WORLD_SIZE=" + size, "OMPI_UNIVERSE_SIZE=" + size,
		"OMPI_COMM_WORLD_LOCAL_RANK=" + localRank, "OMPI_COMM_WORLD_LOCAL_SIZE=" + localSize,
		"OMPI_COMM_WORLD_NODE_RANK=" + localRank,
		"MV2_COMM_WORLD_RANK=" + rank, "MV2_COMM_WORLD_SIZE=" + size,
		"MV2_COMM_WORLD_LOCAL_RANK=" + localRank, "MV2_COMM_WORLD_LOCAL_SIZE=" + localSize,
		"RANK=" + rank, "WORLD_SIZE=" + size, "LOCAL_RANK=" + localRank, "LOCAL_WORLD_SIZE=" + localSize,
		"GROUP_RANK=" + strconv.Itoa(t.Node-t.FirstNode), "GROUP_WORLD_SIZE=" + strconv.Itoa(t.Nodes-t.FirstNode),
		"ROLE_RANK=" + rank, "ROLE_WORLD_SIZE=" + size,
		"TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=" + t.JobID,
		"GFORTRAN_UNBUFFERED_PRECONNECTED=y", // as hydra does: lines are written immediately
	}
}
