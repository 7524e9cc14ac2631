package allocation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// env returns a function like os.Getenv for words NAME=VALUE.
func env(words ...string) func(string) string {
	m := make(map[string]string)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

// summary describes an allocation in one line.
func summary(a *Allocation) string {
	if a == nil {
		return "this host"
	}
	s := fmt.Sprintf("%s by %s: %s", a.Source, a.Starter, show(a.Hosts))
	if a.Here {
		s += " here"
	}
	if a.Tasks > 0 {
		s += fmt.Sprintf(" tasks=%d", a.Tasks)
	}
	if a.Groups > 0 {
		s += fmt.Sprintf(" groups=%d", a.Groups)
		for _, h := range a.Hosts {
			s += fmt.Sprintf(" %d", h.Group)
		}
	}
	return s
}

// slurm returns the variables that Slurm sets for salloc -N2 -n4, and more.
func slurm(more ...string) []string {
	return append([]string{"SLURM_JOB_ID=7", "SLURM_JOBID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_NODELIST=n[1-2]",
		"SLURM_NNODES=2",
		"SLURM_JOB_NUM_NODES=2", "SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_TASKS_PER_NODE=2(x2)",
		"SLURM_JOB_CPUS_PER_NODE=4(x2)",
		"SLURM_CLUSTER_NAME=c", "SLURM_SUBMIT_DIR=/", "SLURM_SUBMIT_HOST=login"}, more...)
}

// findTest is a case of Find. The variable HOST is the name of this host, which is n1.cluster otherwise.
type findTest struct {
	o    Options
	env  []string
	want string
}

func (c findTest) check(t *testing.T, name string) {
	t.Helper()
	lookup := env(c.env...)
	a, err := Find(c.o, lookup, cmp.Or(lookup("HOST"), "n1.cluster"))
	if s := summary(a); err != nil || s != c.want {
		t.Errorf("%s:\n\t%s, %v\nwant\t%s", name, s, err, c.want)
	}
}

func TestFindListsAndFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	openMPI, mpich := file("openmpi", "w0.pi slots=2\nw1.pi slots=2\n"), file("mpich", "w0.pi:2\nw1.pi:2\n")
	pbs, rsh := file("pbs", "n1\nn1\nn2\nn2\nn2\n"), file("rsh", "n1\nn2\nn1\n")
	for name, c := range map[string]findTest{
		"nothing":            {Options{}, nil, "this host"},
		"by hand":            {Options{Manual: true, Hosts: "a"}, slurm(), "this host"},
		"--hosts":            {Options{Hosts: "n1:2,me@n2"}, nil, "--hosts by ssh: n1:2 me@n2:0 here"},
		"--hosts elsewhere":  {Options{Hosts: "n2,n1"}, nil, "--hosts by ssh: n2:0 n1:0"},
		"--hosts twice":      {Options{Hosts: "n1,n2,n1"}, nil, "--hosts by ssh: n1:2 n2:1 here"},
		"other spellings":    {Options{Hosts: "n1,N1,n2.x,N2.X."}, nil, "--hosts by ssh: n1:2 n2.x:2 here"},
		"this host's dot":    {Options{Hosts: "N1.:2"}, nil, "--hosts by ssh: N1.:2 here"},
		"Slurm's with a dot": {Options{Hosts: "N2."}, slurm(), "--hosts by srun: n2:2"},
		"--hosts localhost":  {Options{Hosts: "localhost"}, slurm(), "--hosts by ssh: localhost:0 here"},
		"domain":             {Options{Hosts: "n1.cluster:2"}, nil, "--hosts by ssh: n1.cluster:2 here"},
		"--hosts over Slurm": {Options{Hosts: "a:1", Files: []string{"x"}}, slurm(), "--hosts by ssh: a:1"},
		"--hosts of Slurm":   {Options{Hosts: "n2"}, slurm(), "--hosts by srun: n2:2"},
		"first is this host": {Options{Hosts: "n1:1,n2"}, slurm("SLURMD_NODENAME=n1", "HOST=x"), "--hosts by srun: n1:1 n2:2 here"},
		"one is not Slurm's": {Options{Hosts: "n1,n3"}, slurm(), "--hosts by ssh: n1:0 n3:0 here"},
		"another user":       {Options{Hosts: "me@n2"}, slurm(), "--hosts by ssh: me@n2:0"},
		"file of Slurm":      {Options{Files: []string{rsh}}, slurm(), "host file " + rsh + " by srun: n1:2 n2:1 here"},
		"component of Slurm": {Options{Hosts: "n2"}, []string{"SLURM_JOB_ID=7", "SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
			"SLURM_TASKS_PER_NODE_HET_GROUP_0=1", "SLURM_JOB_NODELIST_HET_GROUP_1=n2", "SLURM_TASKS_PER_NODE_HET_GROUP_1=3"},
			"--hosts by srun: n2:3 groups=2 1"},
		"--hostfile": {Options{Files: []string{openMPI}}, slurm(), "host file " + openMPI + " by ssh: w0.pi:2 w1.pi:2"},
		"two host files": {Options{Files: []string{openMPI, rsh}}, nil,
			"host file " + openMPI + ", " + rsh + " by ssh: w0.pi:2 w1.pi:2 n1:2 n2:1"},
		"a line per rank": {Options{Files: []string{rsh}}, nil, "host file " + rsh + " by ssh: n1:2 n2:1 here"},
		"--ppn":           {Options{Hosts: "n1:2,n2", PerNode: 3}, nil, "--hosts by ssh: n1:3 n2:3 here"},

		"hydra's variable": {Options{}, slurm("HYDRA_HOST_FILE=" + mpich),
			"host file " + mpich + " (HYDRA_HOST_FILE) by ssh: w0.pi:2 w1.pi:2"},
		"Open MPI's variable": {Options{}, []string{"OMPI_MCA_orte_default_hostfile=" + openMPI},
			"host file " + openMPI + " (OMPI_MCA_orte_default_hostfile) by ssh: w0.pi:2 w1.pi:2"},
		"Intel's variable": {Options{}, []string{"I_MPI_HYDRA_HOST_FILE=" + mpich},
			"host file " + mpich + " (I_MPI_HYDRA_HOST_FILE) by ssh: w0.pi:2 w1.pi:2"},
		"PRRTE's variable": {Options{}, []string{"PRTE_MCA_prte_default_hostfile=" + openMPI},
			"host file " + openMPI + " (PRTE_MCA_prte_default_hostfile) by ssh: w0.pi:2 w1.pi:2"},
		"worker of a pod": {Options{}, []string{"K_MPI_JOB_ROLE=worker"}, "this host"},

		"PBS": {Options{}, []string{"PBS_NODEFILE=" + pbs}, "PBS_NODEFILE=" + pbs + " by ssh: n1:2 n2:3 here"},
		"LSF": {Options{}, []string{"LSB_MCPU_HOSTS=n1 2 n2 4", "LSB_JOBID=9"},
			"LSF job 9 by ssh: n1:2 n2:4 here"},
		"LSF with files": {Options{}, []string{"LSB_DJOB_HOSTFILE=" + pbs, "LSB_MCPU_HOSTS=x 2"},
			"LSB_DJOB_HOSTFILE=" + pbs + " by ssh: n1:2 n2:3 here"},
	} {
		c.check(t, name)
	}
}

func TestFindSlurm(t *testing.T) {
	for name, c := range map[string]findTest{
		"salloc on a login node": {Options{}, slurm("HOST=login"), "Slurm job 7 by srun: n1:2 n2:2"},
		"sbatch": {Options{}, slurm("SLURMD_NODENAME=n1", "SLURM_PROCID=0", "SLURM_LOCALID=0",
			"SLURM_NODEID=0", "SLURM_GTIDS=0"), "Slurm job 7 by srun: n1:2 n2:2 here"},
		"srun --pty on the 2nd node": {Options{}, slurm("SLURMD_NODENAME=n2", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
			"SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n2", "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_TASKS_PER_NODE=1",
			"SLURM_NTASKS=1"), "Slurm job 7 by srun: n2:1 here"},
		"ssh to the first node": {Options{}, slurm("SLURM_JOB_NODELIST=n1,n2"), "Slurm job 7 by srun: n1:2 n2:2 here"},
		"--ppn in a step": {Options{PerNode: 3}, slurm("SLURMD_NODENAME=n2", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
			"SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n2", "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_TASKS_PER_NODE=1",
			"SLURM_NTASKS_PER_NODE=2"), "Slurm job 7 by srun: n2:3 here"},
		"step that keeps variables": {Options{}, slurm("SLURMD_NODENAME=n1", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290",
			"SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_TASKS_PER_NODE=1"),
			"Slurm job 7 by srun: n1:2 n2:2 here"},
		"fewer tasks than slots": {Options{}, slurm("SLURM_NTASKS=3", "HOST=login"), "Slurm job 7 by srun: n1:2 n2:2 tasks=3"},
		"IBRUN_TASKS_PER_NODE":   {Options{PerNode: 1}, slurm(), "Slurm job 7 by srun: n1:1 n2:1 here"},
		"--ppn without a list": {Options{PerNode: 1}, slurm("SLURM_TASKS_PER_NODE=", "SLURM_JOB_CPUS_PER_NODE="),
			"Slurm job 7 by srun: n1:1 n2:1 here"},
		"no tasks": {Options{}, slurm("SLURM_TASKS_PER_NODE=", "SLURM_CPUS_PER_TASK=2", "SLURM_NTASKS="),
			"Slurm job 7 by srun: n1:2 n2:2 here"},
		"tasks for each node": {Options{}, slurm("SLURM_TASKS_PER_NODE=", "SLURM_NTASKS_PER_NODE=3", "SLURM_NTASKS="),
			"Slurm job 7 by srun: n1:3 n2:3 here"},
		"heterogeneous": {Options{}, slurm("SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
			"SLURM_TASKS_PER_NODE_HET_GROUP_0=1",
			"SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]", "SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2)", "SLURM_NTASKS=1",
			"SLURMD_NODENAME=n1"),
			"Slurm job 7 by srun: n1:1 n2:2 n3:2 here groups=2 0 1 1"},
		"Slurm before 20.02": {Options{}, slurm("SLURM_PACK_SIZE=2", "SLURM_JOB_NODELIST_PACK_GROUP_0=n1",
			"SLURM_TASKS_PER_NODE_PACK_GROUP_0=1",
			"SLURM_JOB_NODELIST_PACK_GROUP_1=n1", "SLURM_TASKS_PER_NODE_PACK_GROUP_1=2"),
			"Slurm job 7 by srun: n1:3 here groups=2 0"},
		"job of a rank": {Options{}, slurm("IBRUN_FD=3", "PMI_SIZE=4", "PMI_RANK=0"), "this host"},

		"-o 0": {Options{Packed: true}, slurm("SLURMD_NODENAME=n1"), "Slurm job 7 by srun: n1:2 n2:2 here"},
		"-o 1": {Options{Packed: true, Offset: 1}, slurm("SLURMD_NODENAME=n1"),
			"Slurm job 7 by srun: n1:1+1 n2:2 here"},
		"-o 2": {Options{Packed: true, Offset: 2}, slurm("SLURMD_NODENAME=n1"), "Slurm job 7 by srun: n2:2"},
		"-o 3": {Options{Packed: true, Offset: 3}, slurm("SLURMD_NODENAME=n1"), "Slurm job 7 by srun: n2:1+1"},
		"-o of cores": {Options{Packed: true, Offset: 3, Hosts: "localhost"}, nil,
			"--hosts by ssh: localhost:0+3 here"},
		"-o with tasks": {Options{Packed: true, Offset: 2}, slurm("SLURM_NTASKS=3", "HOST=login"),
			"Slurm job 7 by srun: n2:2 tasks=1"},
		"-o with --ppn": {Options{Packed: true, Offset: 1, PerNode: 1}, slurm(), "Slurm job 7 by srun: n2:1"},
		"-o to the host here": {Options{Packed: true, Offset: 2}, slurm("SLURMD_NODENAME=n2"),
			"Slurm job 7 by srun: n2:2 here"},
	} {
		c.check(t, name)
	}
}

// TestFindErrors checks that every mistake is one line that names the variable or option, and says what to do.
func TestFindErrors(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		env  []string
		want string
	}{
		"--hosts":          {Options{Hosts: "a,:2"}, nil, "--hosts: column 3: a host has no name"},
		"two users":        {Options{Hosts: "a@h,b@h"}, nil, `--hosts: host h is listed with two users: "a" and "b"`},
		"list of Slurm":    {Options{}, slurm("SLURM_JOB_NODELIST=n[1-"), "Slurm job 7: SLURM_JOB_NODELIST: column 3:"},
		"option as a host": {Options{}, slurm("SLURM_JOB_NODELIST=-x"), "the name of a host cannot begin with a dash"},
		"tasks of Slurm":   {Options{}, slurm("SLURM_TASKS_PER_NODE=2(x2"), "Slurm job 7: SLURM_TASKS_PER_NODE: column 2:"},
		"lists of different lengths": {Options{}, slurm("SLURM_TASKS_PER_NODE=2", "SLURM_JOB_CPUS_PER_NODE=1(x3)"),
			`SLURM_TASKS_PER_NODE="2" and SLURM_JOB_CPUS_PER_NODE="1(x3)" ` +
				`do not say how many tasks each of its 2 nodes has: write --ppn N`},
		"heterogeneous": {Options{}, slurm("SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1",
			"SLURM_TASKS_PER_NODE_HET_GROUP_0=1"), "SLURM_JOB_NODELIST_HET_GROUP_1 is not set"},
		"hydra's variable": {Options{}, []string{"HYDRA_HOST_FILE=/nowhere"}, "read the host file: open /nowhere"},
		"no file of a pod": {Options{}, []string{"K_MPI_JOB_ROLE=launcher"},
			"read the host file: open /etc/mpi/hostfile: no such file or directory (it is read because of K_MPI_JOB_ROLE=launcher; "},
		"PBS after its job": {Options{}, []string{"PBS_NODEFILE=/nowhere"},
			"PBS_NODEFILE names: open /nowhere: no such file or directory (to run on this host: --hosts localhost)"},
		"LSF": {Options{}, []string{"LSB_MCPU_HOSTS=n1 2 n2"},
			"LSB_MCPU_HOSTS: column 8: the number of slots of n2 is missing"},
		"offset after the end": {Options{Packed: true, Offset: 4}, slurm(),
			"--offset 4 leaves none of the 4 slots of Slurm job 7"},
		"offset in cores": {Options{Packed: true, Offset: 1, Hosts: "n1,n2"}, nil,
			"--offset 1 counts slots, but --hosts does not say how many host n1 has: write n1:N or --ppn N"},
	} {
		a, err := Find(c.o, env(c.env...), "n1")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(),
			"%!") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %s, %v; want %s", name, summary(a), err, c.want)
		}
	}
}

// TestParents checks that ibrun refuses to be one of several processes of another launcher, and no more than that.
func TestParents(t *testing.T) {
	step := func(more ...string) []string {
		return slurm(append([]string{"SLURM_STEP_ID=0", "SLURM_STEPID=0", "SLURM_STEP_NUM_TASKS=4",
			"SLURM_STEP_NODELIST=n[1-2]",
			"SLURM_STEP_TASKS_PER_NODE=2(x2)", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_TASK_PID=1", "SLURMD_NODENAME=n1"},
			more...)...)
	}
	command := []string{"./pi", "100"}
	for name, c := range map[string]struct {
		o    Options
		env  []string
		want string
	}{
		"srun -n 4": {Options{}, step(),
			"srun has started 4 processes of ibrun (SLURM_STEP_NUM_TASKS=4), and each would start a job; write: " +
				"ibrun -n 4 ./pi (without srun); or, for a job on this host in each process: ibrun --hosts localhost ./pi"},
		"with --hosts": {Options{Hosts: "a,b"}, step(), "srun has started 4 processes"},
		"--mpi=pmi2": {Options{}, step("PMI_RANK=0", "PMI_SIZE=4", "PMI_JOBID=7.0"),
			"srun has started 4 processes of ibrun (PMI_SIZE=4)"},
		"--mpi=pmix": {Options{}, step("PMIX_RANK=0", "PMIX_NAMESPACE=slurm.pmix.7.0"),
			"srun has started 4 processes"},
		"mpirun": {Options{}, []string{"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0", "PMIX_RANK=0"},
			"mpirun has started 4 processes of ibrun (OMPI_COMM_WORLD_SIZE=4)"},
		"hydra": {Options{}, []string{"PMI_SIZE=4", "PMI_RANK=0", "PMI_FD=5"},
			"mpiexec has started 4 processes of ibrun (PMI_SIZE=4)"},
		"prterun": {Options{}, []string{"PMIX_RANK=1", "PMIX_NAMESPACE=x"},
			"a launcher with PMIx has started several processes of ibrun (PMIX_NAMESPACE=x)"},
		"component": {Options{}, step("SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=1"),
			"srun has started several processes of ibrun (SLURM_PROCID=1)"},
		"flux":              {Options{}, []string{"FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=2"}, "flux run has started 2 processes"},
		"srun --pty, piped": {Options{}, step("SLURM_PTY_PORT=1"), "srun has started 4 processes"},

		"srun --pty":           {Options{Terminal: true}, step("SLURM_PTY_PORT=1"), ""},
		"stale variables":      {Options{}, []string{"PMIX_RANK=3", "PMI_PORT=nowhere:1", "PMI_FD=99"}, ""},
		"srun -n 1":            {Options{}, step("SLURM_STEP_NUM_TASKS=1"), ""},
		"sbatch":               {Options{}, slurm("SLURM_PROCID=0", "SLURMD_NODENAME=n1"), ""},
		"salloc on a node":     {Options{}, step("SLURM_STEP_ID=4294967290", "SLURM_STEP_NUM_TASKS=1"), ""},
		"mpirun -n 1":          {Options{}, []string{"OMPI_COMM_WORLD_SIZE=1", "PMIX_RANK=0", "PMIX_NAMESPACE=x"}, ""},
		"a rank of ibrun":      {Options{}, []string{"IBRUN_FD=3", "PMI_SIZE=4", "OMPI_COMM_WORLD_SIZE=4"}, ""},
		"a job in each":        {Options{Hosts: "localhost"}, step(), ""},
		"by hand in each task": {Options{Manual: true}, step(), ""},
	} {
		c.o.Command = command
		_, err := Find(c.o, env(c.env...), "n1")
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		name, this string
		want       bool
	}{
		{"n1", "n1", true}, {"N1", "n1", true}, {"n1", "n1.a.org", true}, {"n1.a.org", "n1", true}, {"n1.a.org", "n1.b.org",
			false},
		{"n1", "n2", false}, {"localhost", "n2", true}, {"127.0.0.1", "n2", true}, {"10.0.0.1", "10", false}, {"n10", "n1",
			false},
	} {
		if got := SameHost(c.name, c.this); got != c.want {
			t.Errorf("%s is %s: %v", c.name, c.this, got)
		}
	}
}

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		hosts  string
		o      Options
		policy string
		ranks  []int
		want   string // nodes of the ranks; hosts
	}{
		{"n1:2,n2:2", Options{}, "", []int{0}, "0 0 1 1; n1:2 n2:2"},
		{"n1:2,n2:2", Options{}, "", []int{2}, "0 0; n1:2"},
		{"n1:2,n2:2", Options{}, "", []int{3}, "0 0 1; n1:2 n2:2"},
		{"n1:2,n2:2", Options{}, "map-by=node", []int{0}, "0 1 0 1; n1:2 n2:2"},
		{"n1:3,n2:1", Options{}, "map-by=node", []int{0}, "0 1 0 0; n1:3 n2:1"},
		{"n1:3,n2:1", Options{}, "map-by=node", []int{6}, "0 1 0 0 0 1; n1:3 n2:1"},
		{"n1:3,n2:1", Options{}, "", []int{8}, "0 0 0 0 0 0 1 1; n1:3 n2:1"},
		{"n2:2,n1:2", Options{}, "", []int{0}, "1 1 2 2; n2:2 n1:2"},
		{"n1,n2", Options{}, "", []int{5}, "0 0 0 1 1; n1:0 n2:0"},
		{"n1:1,n2,n3", Options{}, "", []int{5}, "0 1 1 2 2; n1:1 n2:0 n3:0"},
		{"n1,n2", Options{}, "", []int{1}, "0; n1:0"},
		{"n1,n2", Options{PerNode: 2}, "ppn=2", []int{0}, "0 0 1 1; n1:2 n2:2"},
		{"n1:1,n2:3", Options{}, "", []int{1, 2}, "0 1 1; n1:1 n2:3"},
		{"n1:2,n2:2", Options{Packed: true, Offset: 1}, "offset=1", []int{2}, "0 1; n1:1+1 n2:2"},
		{"n1:2,n2:2", Options{Packed: true, Offset: 2}, "offset=2", []int{2}, "1 1; n2:2"},
		{"n1", Options{}, "", []int{0}, "this host"},
		{"n1:4", Options{}, "map-by=ppr:1:numa", []int{0}, "this host"},
		{"n1:4", Options{}, "", []int{0}, "0 0 0 0; n1:4"},
	} {
		c.o.Hosts = c.hosts
		a, err := Find(c.o, env(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := a.Assign(c.ranks, policy(t, c.policy))
		got := "this host"
		if s != nil {
			got = strings.Trim(fmt.Sprint(s.NodeOf()), "[]") + "; " + show(s.Hosts)
		}
		if err != nil || got != c.want {
			t.Errorf("%s, %v ranks, %q: %s, %v; want %s", c.hosts, c.ranks, c.policy, got, err, c.want)
		}
		if s != nil {
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", c.hosts, err)
			}
		}
	}
}

// policy returns the policy that flags set.
func policy(t *testing.T, flags string) *placement.Policy {
	t.Helper()
	p := new(placement.Policy)
	for word := range strings.FieldsSeq(flags) {
		name, value, _ := strings.Cut(word, "=")
		if err := p.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestAssignErrors(t *testing.T) {
	for _, c := range []struct {
		hosts, policy string
		o             Options
		ranks         int
		want          string
	}{
		{"n1,n2", "", Options{}, 0,
			"--hosts does not say how many ranks host n1 runs: write -n N (on all hosts together) or --ppn N (on each)"},
		{"n1:2,n2:2", "map-by=ppr:1:numa", Options{}, 0, "say -n N too"},
		{"n1:2,n2:2", "nooversubscribe=true", Options{}, 5, "5 ranks need more than the 4 slots of --hosts"},
		{"n1:2,n2:2", "offset=2", Options{Packed: true, Offset: 2}, 3,
			"3 ranks need more than the 2 slots of --hosts that --offset 2 leaves"},
		{"n1,n2", "ppn=2", Options{PerNode: 2}, 5, "5 ranks requested, but --ppn 2 on 2 hosts allows only 4"},
		{"n1:1048576,n2:1048576", "", Options{}, 0, "a job has at most 1048576 ranks, not 2097152"},
	} {
		c.o.Hosts = c.hosts
		a, err := Find(c.o, env(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Assign([]int{c.ranks}, policy(t, c.policy)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d ranks, %q: %v; want %s", c.hosts, c.ranks, c.policy, err, c.want)
		}
	}
	a := &Allocation{Source: "host file f", Hosts: []Host{{Name: "n1", Slots: 2, MaxSlots: 3}}, Here: true}
	if _, notes, err := a.Assign([]int{3}, new(placement.Policy)); err != nil ||
		!slices.Equal(notes, []string{"3 ranks run on the 2 slots of host file f, so several share a slot"}) {
		t.Errorf("more ranks than slots: %q, %v", notes, err)
	}
	if _, _, err := a.Assign([]int{4}, new(placement.Policy)); err == nil || !strings.Contains(err.Error(),
		"4 ranks on host n1 are more than its max_slots=3") {
		t.Errorf("more ranks than max_slots: %v", err)
	}
}

// TestCheck checks that assignments which contradict themselves are refused.
func TestCheck(t *testing.T) {
	good := func() *Assignment {
		return &Assignment{Hosts: []Host{{Name: "a"}, {Name: "b"}}, Here: true, Ranks: []int{3}, Blocks: []Block{{0, 2}, {1,
			1}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Assignment){
		"no hosts":         func(s *Assignment) { s.Hosts = nil },
		"negative ranks":   func(s *Assignment) { s.Ranks = []int{4, -1} },
		"too few":          func(s *Assignment) { s.Blocks = s.Blocks[:1] },
		"too many":         func(s *Assignment) { s.Blocks = append(s.Blocks, Block{0, 1}) },
		"empty block":      func(s *Assignment) { s.Blocks = append(s.Blocks, Block{0, 0}) },
		"unknown node":     func(s *Assignment) { s.Blocks[1].Node = 2 },
		"node 0 elsewhere": func(s *Assignment) { s.Here = false },
		"host unused":      func(s *Assignment) { s.Blocks = []Block{{0, 3}} },
		"negative slots":   func(s *Assignment) { s.Hosts[0].Slots = -1 },
		"negative skip":    func(s *Assignment) { s.Hosts[1].Skip = -1 },
	} {
		s := good()
		spoil(s)
		if err := s.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
