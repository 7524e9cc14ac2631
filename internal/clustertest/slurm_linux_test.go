package clustertest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/openmpitest"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// where is a program that prints its rank, the size of the world and the node of Slurm on which it runs.
const where = `echo "$PMI_RANK of $PMI_SIZE on $SLURMD_NODENAME"`

// slurm prepares a command of Slurm's.
func slurm(t *testing.T, args ...string) *job {
	t.Helper()
	if os.Getenv("SLURM_CONF") == "" {
		t.Fatal("no Slurm is running: .ci/clusters starts it (SLURM_CONF)")
	}
	return newJob(t, args...)
}

// salloc runs a command in an allocation of two nodes with two tasks each.
func salloc(t *testing.T, command ...string) *job {
	t.Helper()
	return slurm(t, append([]string{"salloc", "-Q", "-N2", "-n4", "--ntasks-per-node=2"}, command...)...).start()
}

// sbatch runs a script of sh on the first of two nodes with two tasks each, and waits for its end.
func sbatch(t *testing.T, text string, flags ...string) *job {
	t.Helper()
	dir := t.TempDir()
	j := slurm(t, slices.Concat([]string{"sbatch", "-Q", "--wait", "-N2", "-n4", "--ntasks-per-node=2", "-o", dir + "/out",
		"-e", dir + "/err"}, flags, []string{script(t, text)})...)
	j.files = [2]string{dir + "/out", dir + "/err"}
	return j.start()
}

// TestSalloc: ibrun needs no option in an allocation. It starts the ranks on the nodes and in the number that Slurm has
// assigned.
func TestSalloc(t *testing.T) {
	t.Parallel()
	j := newJob(t, "salloc", "-Q", "-N2", "-n4", "ibrun", "./examples/pi")
	j.cmd.Dir = checkout
	j.start().want(0)
	j.wantPi()
	salloc(t, "ibrun", "sh", "-c", where).want(0).wantLines("0 of 4 on n1", "1 of 4 on n1", "2 of 4 on n2", "3 of 4 on n2")
	salloc(t, "ibrun", "-n", "3", "sh", "-c", where).want(0).wantLines("0 of 3 on n1", "1 of 3 on n1", "2 of 3 on n2")
	// A program of MPICH fails if a network device disappears while it starts, as those of other tests do.
	salloc(t, "env", "UCX_NET_DEVICES=lo", "ibrun", "sum").want(0).wantLines("sum of 4 ranks: 6")
}

// TestSbatch: ibrun runs on all nodes when a script on the first of them starts it. A program that the script starts alone is a
// world of one.
func TestSbatch(t *testing.T) {
	t.Parallel()
	sbatch(t, "ibrun sh -c '"+where+"'").want(0).wantLines("0 of 4 on n1", "1 of 4 on n1", "2 of 4 on n2", "3 of 4 on n2")
	j := sbatch(t, "pi")
	j.want(0)
	j.wantPi() // a world of one
}

// TestSrun: the launcher of Slurm starts programs of ibrun, with each of its protocols. Without a protocol a program refuses to
// be several worlds of one.
func TestSrun(t *testing.T) {
	t.Parallel()
	for _, mpi := range []string{"pmi2", "pmix"} {
		t.Run(mpi, func(t *testing.T) {
			j := slurm(t, "srun", "--mpi="+mpi, "-N2", "-n4", "pi").start()
			j.want(0)
			j.wantPi()
		})
	}
	t.Run("none", func(t *testing.T) {
		j := slurm(t, "srun", "--mpi=none", "-N2", "-n4", "pi").start()
		if code := j.wait(); code == 0 || !strings.Contains(j.err(), "--mpi=pmi2") {
			t.Errorf("exit code %d:\n%s", code, j.err())
		}
	})
	t.Run("ibrun", func(t *testing.T) {
		j := slurm(t, "srun", "-N2", "-n4", "ibrun", "pi").start()
		if code := j.wait(); code == 0 || j.out() != "" || !strings.Contains(j.err(), "srun") {
			t.Errorf("exit code %d:\n%s", code, j.err())
		}
	})
}

// TestPacked: two jobs run at the same time in one allocation, each on its part of it.
func TestPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	both := script(t, fmt.Sprintf(`
		meet="touch %[1]s/\$0.\$PMI_RANK; until [ \$(ls %[1]s | wc -l) = 4 ]; do sleep 0.05; done
			echo \$0 \$PMI_RANK on \$SLURMD_NODENAME"
		ibrun -n 3 -o 0 sh -c "$meet" first & a=$!
		ibrun -n 1 -o 3 sh -c "$meet" second & b=$!
		wait $a && wait $b`, dir))
	salloc(t, both).want(0).wantLines("first 0 on n1", "first 1 on n1", "first 2 on n2", "second 0 on n2")
	j := slurm(t, "salloc", "-Q", "-N2", "-n4", "--ntasks-per-node=2", "ibrun", "sh", "-c", where)
	j.cmd.Env = append(j.cmd.Env, "IBRUN_TASKS_PER_NODE=1")
	j.start().want(0).wantLines("0 of 2 on n1", "1 of 2 on n2")
	salloc(t, "ibrun", "-n", "2", "-o", "3", "pi").want(2, "-o")
}

// TestTravels: arguments, working directory, environment and standard input reach the ranks, through a wrapper program too.
func TestTravels(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := script(t, `exec "$@"`)
	const value = "one 'two' \"three\" $four\n\\five"
	j := slurm(t, "salloc", "-Q", "-N2", "-n4", "ibrun", "--ppn", "1", "-n", "2", wrapper, "sh", "-c",
		`printf '%s|%s|%s' "$PWD" "$VALUE" "$1" >$SLURMD_NODENAME`, "sh", value)
	j.cmd.Dir = dir
	j.cmd.Env = append(j.cmd.Env, "VALUE="+value)
	j.start().want(0)
	wantFile(t, dir+"/n1", dir+"|"+value+"|"+value)
	wantFile(t, dir+"/n2", dir+"|"+value+"|"+value)
	j = slurm(t, "salloc", "-Q", "-N2", "-n4", "ibrun", "-n", "2", "--ppn", "1", "-l", "cat")
	j.cmd.Stdin = strings.NewReader("first\nsecond\n")
	j.start().want(0).wantLines("[0] first", "[0] second")
}

// wantFile checks what a file contains.
func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s contains %q, %v; want %q", path, got, err, want)
	}
}

// TestExitCodes: the exit code of ibrun is that of the first rank that fails, on whatever node.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for rank, node := range []string{"n1", "n1", "n2", "n2"} {
		salloc(t, "ibrun", "sh", "-c", fmt.Sprintf("test $PMI_RANK != %d || exit 3; sleep 1000", rank)).
			want(3, fmt.Sprintf("rank %d on %s", rank, node))
	}
	salloc(t, "ibrun", "sh", "-c", "test $PMI_RANK != 3 || kill -KILL $$; sleep 1000").want(137, "rank 3 on n2")
	salloc(t, "ibrun", "--timeout", "0.5", "sleep", "1000").want(124, "ranks 0-3")
	salloc(t, "ibrun", "no-such-program").want(127, "no-such-program")
}

// TestLogJSON: with --log-format json each line that ibrun writes to standard error is one JSON object, also those about ranks on
// nodes where Slurm started ibrun.
func TestLogJSON(t *testing.T) {
	t.Parallel()
	type message struct {
		Time                  time.Time
		Level, Msg, Job, Host string
		Rank                  int
		RankHost              string `json:"rank_host"`
		RankExitCode          int    `json:"rank_exit_code"`
		ExitCode              int    `json:"exit_code"`
	}
	j := salloc(t, "ibrun", "--log-format", "json", "sh", "-c", "test $PMI_RANK != 3 || exit 5; sleep 1000").want(5)
	seen := map[string]message{}
	named := false // before its nodes have joined, a job has no ID
	for line := range strings.Lines(j.err()) {
		var m message
		err := json.Unmarshal([]byte(line), &m)
		named = named || m.Job != ""
		if err != nil || m.Time.IsZero() || m.Level == "" || named && m.Job == "" || m.Host == "" {
			t.Errorf("ibrun wrote %q: %v", line, err)
		}
		seen[m.Msg] = m
	}
	if m := seen["a rank has failed"]; m.Rank != 3 || m.RankHost != "n2" || m.RankExitCode != 5 {
		t.Errorf("the rank that failed is %+v of\n%s", m, j.err())
	}
	if m := seen["the job has ended"]; m.ExitCode != 5 {
		t.Errorf("the end is %+v of\n%s", m, j.err())
	}
}

// writesFile is a program whose ranks, when they are asked to end, sleep a second and write a file.
func writesFile(t *testing.T) (program, dir string) {
	dir = t.TempDir()
	return script(t, fmt.Sprintf(`trap 'sleep 1; touch %s/$PMI_RANK; exit 0' TERM
		echo ready
		while :; do sleep 0.05; done`, dir)), dir
}

// wantFiles checks that all ranks have written their files.
func wantFiles(t *testing.T, dir string, ranks int) {
	t.Helper()
	for rank := range ranks {
		if _, err := os.Stat(filepath.Join(dir, strconv.Itoa(rank))); err != nil {
			t.Errorf("rank %d had no time to write its file: %v", rank, err)
		}
	}
}

// TestScancel: when a job is cancelled, or its time is over, ranks have time to end, and then nothing is left.
func TestScancel(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, program string) *job{
		"salloc": func(t *testing.T, program string) *job { return salloc(t, "ibrun", "--heartbeat", "10m", program) },
		"sbatch": func(t *testing.T, program string) *job { return sbatch(t, "ibrun --heartbeat 10m "+program) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range soaktest.Choose(20, 1) {
				program, dir := writesFile(t)
				j := start(t, program)
				j.wrote("ready", 4)
				cancel(t, j)
				j.wait()
				j.nothingLeft()
				wantFiles(t, dir, 4)
			}
		})
	}
	t.Run("stubborn", func(t *testing.T) {
		t.Parallel()
		j := salloc(t, "ibrun", "--heartbeat", "10m", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
		j.wrote("ready", 4)
		cancel(t, j)
		j.wait()
		j.nothingLeft()
	})
	t.Run("time limit", func(t *testing.T) {
		t.Parallel()
		program, dir := writesFile(t)
		j := sbatch(t, "ibrun --heartbeat 10m "+program)
		j.wrote("ready", 4)
		// Slurm's shortest limit is a minute.
		if out, err := exec.Command("scontrol", "update", "JobId="+jobID(t, j), "EndTime=now+1").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if code := j.wait(); code == 0 {
			t.Error("exit code 0 after the time limit")
		}
		j.nothingLeft()
		wantFiles(t, dir, 4)
	})
}

// jobID returns the number of the job in Slurm.
func jobID(t *testing.T, j *job) string {
	t.Helper()
	for _, pid := range j.alive() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // it has ended
		}
		for _, v := range strings.Split(string(env), "\x00") {
			if id, ok := strings.CutPrefix(v, "SLURM_JOB_ID="); ok {
				return id
			}
		}
	}
	t.Fatalf("no process of %q is a job of Slurm", j.cmd.Args)
	return ""
}

func cancel(t *testing.T, j *job) {
	t.Helper()
	if out, err := exec.Command("scancel", jobID(t, j)).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
}

// TestSlurmKill: whichever process is killed, nothing is left on any node.
func TestSlurmKill(t *testing.T) {
	t.Parallel()
	for _, victim := range [][]string{{"ibrun", "sh"}, {"ibrun", "node"}, {"srun", "--overlap"}} {
		j := salloc(t, "ibrun", "sh", "-c", "echo ready; sleep 1000")
		j.wrote("ready", 4)
		pids := j.find(victim[0], victim[1:]...)
		if len(pids) == 0 {
			t.Fatalf("there is no process %q", victim)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// salloc itself returns 0 when a signal has killed its command.
		if code := j.wait(); code == 0 && victim[1] != "sh" {
			t.Errorf("exit code 0 after SIGKILL of %q", victim)
		}
		if victim[0] == "srun" { // Slurm then kills everything on the nodes at once, with what would have removed files
			j.noProcesses()
		} else {
			j.nothingLeft()
		}
	}
}

// TestHeterogeneous: the ranks of a heterogeneous job are those of all its components.
func TestHeterogeneous(t *testing.T) {
	t.Parallel()
	slurm(t, "salloc", "-Q", "-N1", "-n1", "--nodelist=n1", ":", "-N1", "-n2", "--nodelist=n2", "ibrun", "sh", "-c", where).start().
		want(0).wantLines("0 of 3 on n1", "1 of 3 on n2", "2 of 3 on n2")
}

// TestOtherLaunchers: programs of ibrun run under the launchers of MPICH and Open MPI as one world.
func TestOtherLaunchers(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{
		{"mpiexec.hydra", "-n", "4", "pi"},
		{"mpirun.openmpi", "--oversubscribe", "-n", "4", "pi"},
	} {
		j := newJob(t, command...)
		j.cmd.Env = append(j.cmd.Env, openmpitest.Env(t)...)
		j.start()
		if code := j.wait(); code != 0 {
			t.Errorf("%q: exit code %d", command, code)
		}
		j.wantPi()
	}
}
