package pmi

import (
	"fmt"
	"os"
	"strconv"
)

// Launcher is a launcher that has started this process as one of several.
type Launcher struct {
	// Name is the command of the launcher: srun, mpirun.
	Name string
	// Evidence is the environment variable that shows that there are other processes, NAME=VALUE.
	Evidence string
	// Size is the number of processes. It is 0 if the launcher does not provide it.
	Size int

	fix string // how to start a program with it, with %[1]s for the number of processes and %[2]s for the program
}

// launcher describes the environment variables by which processes of a launcher can be recognized.
type launcher struct {
	name string
	size string // variable with the number of processes
	fix  string
}

const (
	fixDirect = "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2, not with "
	fixSrun   = "start it with: srun --mpi=pmi2 -n %[1]s %[2]s"
	fixClosed = "its descriptor PMI_FD was closed; start it with: ibrun -n %[1]s %[2]s"
	fixPMIx   = "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2; to run it alone: env -u PMIX_NAMESPACE -u PMIX_RANK %[2]s"
)

// launchers returns the launchers that start several processes and set a variable in these only. A launcher that may run inside a
// job of another one comes before it, because its processes inherit the variables of both.
func launchers() []launcher {
	return []launcher{
		{"mpiexec", "PMI_SIZE", fixClosed},
		{"mpirun", "OMPI_COMM_WORLD_SIZE", fixDirect + "Open MPI's mpirun: ibrun -n %[1]s %[2]s"},
		{"mpirun_rsh", "MV2_COMM_WORLD_SIZE", fixDirect + "mpirun_rsh: ibrun -n %[1]s %[2]s"},
		{"jsrun", "JSM_NAMESPACE_SIZE", fixDirect + "jsrun: ibrun -n %[1]s %[2]s"},
	}
}

// FindLauncher returns the launcher that has started this process as one of several, or nil. The first launcher that is
// recognized decides. terminal is the result of HasTerminal.
func FindLauncher(getenv func(string) string, terminal bool) *Launcher {
	for _, t := range launchers() {
		if getenv(t.size) != "" {
			l := newLauncher(t, getenv)
			if l != nil && isSlurmPMI(getenv) {
				l.Name = "srun"
			}
			return l
		}
	}
	if getenv("FLUX_TASK_RANK") != "" && getenv("FLUX_JOB_SIZE") != "" {
		return newLauncher(launcher{"flux run", "FLUX_JOB_SIZE", "start it with: flux run -o pmi=simple -n %[1]s %[2]s"}, getenv)
	}
	if isStep, l := findStep(getenv, terminal); isStep {
		return l
	}
	for _, name := range []string{"PMIX_NAMESPACE", "PMIX_RANK"} {
		if value := getenv(name); value != "" {
			return &Launcher{Name: "a launcher with PMIx", Evidence: name + "=" + value, fix: fixPMIx}
		}
	}
	return nil
}

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	f.Close() // nothing was read or written
	return true
}

// newLauncher returns nil if there is only one process.
func newLauncher(t launcher, getenv func(string) string) *Launcher {
	text := getenv(t.size)
	n, err := strconv.Atoi(text)
	if err == nil && n <= 1 {
		return nil
	}
	return &Launcher{Name: t.name, Evidence: t.size + "=" + text, Size: max(n, 0), fix: t.fix}
}

// isSlurmPMI reports whether the variables of PMI are those that srun --mpi=pmi2 has set.
func isSlurmPMI(getenv func(string) string) bool {
	step := getenv("SLURM_STEP_ID")
	return step != "" && getenv("PMI_JOBID") == getenv("SLURM_JOB_ID")+"."+step
}

// lastStep is the largest number of a step of srun. Larger ones are the steps of Slurm itself: the batch script, and the shell
// that salloc starts on a node.
const lastStep = 0xfffffff0 - 1

// findStep reports whether this process is one of a step, and returns srun if there are several. The script of sbatch and the
// shell of salloc are not steps, although they have the variables of a task: SLURM_PROCID=0, and SLURM_NTASKS of the whole job.
func findStep(getenv func(string) string, terminal bool) (bool, *Launcher) {
	task, errTask := strconv.Atoi(getenv("SLURM_PROCID"))
	step, errStep := strconv.ParseUint(getenv("SLURM_STEP_ID"), 10, 64)
	if errTask != nil || task == 0 && (errStep != nil || step > lastStep) {
		return false, nil
	}
	t := launcher{"srun", "SLURM_STEP_NUM_TASKS", fixSrun}
	if getenv(t.size) == "" {
		t.size = "SLURM_NTASKS"
	}
	l := newLauncher(t, getenv)
	if l == nil && task > 0 { // one of several components of a heterogeneous job
		l = &Launcher{Name: t.name, Evidence: fmt.Sprintf("SLURM_PROCID=%d", task), fix: fixSrun}
	}
	if terminal && getenv("SLURM_PTY_PORT") != "" && getenv("SLURM_TASK_PID") != strconv.Itoa(os.Getpid()) {
		return true, nil // typed in the shell of srun --pty: the other tasks have no terminal
	}
	return true, l
}

// checkSingleton returns a [LaunchError] if the environment of a process without a connection shows that there are other
// processes.
func checkSingleton(getenv func(string) string, reason string) error {
	l := FindLauncher(getenv, HasTerminal())
	if l == nil {
		return nil
	}
	number := strconv.Itoa(l.Size)
	if l.Size == 0 {
		number = "N"
	}
	return &LaunchError{Evidence: l.Evidence, Fix: fmt.Sprintf(l.fix, number, os.Args[0]), Reason: reason}
}
