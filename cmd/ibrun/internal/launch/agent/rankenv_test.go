package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

func TestRankEnv(t *testing.T) {
	job := &protocol.Task{
		JobID: "j", Host: "h", Size: 5,
		Ranks:    []protocol.RankTask{{Rank: 3}, {Rank: 4, Program: 1}},
		Programs: []protocol.ProgramTask{{}, {Env: []string{"A=3", "A=2", "RANK=9"}}},
		Env: []string{"A=1", "PATH=/bin", "PMI_FD=7", "PMI_PORT=h:1", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=7", "IBRUN_FD=9",
			"OMPI_MCA_btl=self", "WORLD_SIZE=99", "MASTER_PORT=1234"},
	}
	env := RankEnv(job, 1, 1024)
	for _, want := range []string{"A=2", "PATH=/bin", "PMI_FD=100", "PMI_RANK=4", "PMI_SIZE=5", "PMI_JOBID=j", "IBRUN_FD=3",
		"MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_SIZE=5",
		"OMPI_COMM_WORLD_LOCAL_RANK=1",
		"RANK=4", "WORLD_SIZE=5", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=0", "OMPI_MCA_btl=self", "MASTER_PORT=1234"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, openMPIServer+"=file:/") }) {
		t.Error("a program of Open MPI would be a world of one")
	}
	for _, stale := range []string{"PMI_FD=7", "PMI_PORT=h:1", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=7", "IBRUN_FD=9",
		"WORLD_SIZE=99", "RANK=9", "A=1", "A=3"} {
		if slices.Contains(env, stale) {
			t.Errorf("%s was inherited", stale)
		}
	}
}

// TestOpenMPIServer checks that ibrun sets no server for a world of one, and none if the user has set one.
func TestOpenMPIServer(t *testing.T) {
	job := &protocol.Task{Size: 1, Ranks: []protocol.RankTask{{}}, Programs: []protocol.ProgramTask{{}}}
	isServer := func(v string) bool { return strings.HasPrefix(v, openMPIServer+"=") }
	if env := RankEnv(job, 0, 1024); slices.ContainsFunc(env, isServer) {
		t.Error("it is set for a world of one")
	}
	job.Size, job.Env = 2, []string{openMPIServer + "=mine"}
	if env := RankEnv(job, 0, 1024); env[slices.IndexFunc(env, isServer)] != openMPIServer+"=mine" {
		t.Error("the value of the user is not kept")
	}
}

// TestSlurmRankEnv checks that a rank in a Slurm job has the variables of its own rank, and not those of the agent's task.
func TestSlurmRankEnv(t *testing.T) {
	job := &protocol.Task{Size: 5, Node: 1, Ranks: []protocol.RankTask{{Rank: 3}, {Rank: 4}}, Programs: []protocol.ProgramTask{{}},
		Env: []string{"SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0"}}
	var got []string
	for _, v := range RankEnv(job, 1, 1024) {
		if strings.HasPrefix(v, "SLURM_") {
			got = append(got, v)
		}
	}
	slices.Sort(got)
	if want := []string{"SLURM_JOB_ID=7", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_PROCID=4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	job.Node, job.Nodes, job.FirstNode = 2, 3, 1
	env := RankEnv(job, 1, 1024)
	for _, want := range []string{"SLURM_NODEID=1", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2"} {
		if !slices.Contains(env, want) {
			t.Errorf("node 0 has no ranks: %s is missing", want)
		}
	}
	job.Env = []string{"SLURM_PROCID=0"}
	if env := RankEnv(job, 1, 1024); !slices.Contains(env, "SLURM_PROCID=0") {
		t.Error("a variable was changed outside of a Slurm job")
	}
}

func TestOversubscribedRankEnv(t *testing.T) {
	job := &protocol.Task{Size: 5, Ranks: []protocol.RankTask{{Oversubscribed: true}}, Programs: []protocol.ProgramTask{{}}}
	if env := RankEnv(job, 0, 1024); !slices.Contains(env, "GOMAXPROCS=1") {
		t.Error("GOMAXPROCS is missing for a rank that shares a processor")
	}
	job.Env = []string{"GOMAXPROCS=7"}
	if env := RankEnv(job, 0, 1024); !slices.Contains(env, "GOMAXPROCS=7") || slices.Contains(env, "GOMAXPROCS=1") {
		t.Error("the user's own value is overridden")
	}
}
