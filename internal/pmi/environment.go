package pmi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// LaunchError means that this process is one of several, but that there is no way to connect to the others. If each continued
// as a job of one process, the whole program would run that many times.
type LaunchError struct {
	// Evidence is the environment variable that shows that there are other processes.
	Evidence string
	// Fix is the remedy: the command to use instead.
	Fix string
	// Reason is what is wrong with the connection to the launcher. It is empty if the environment names no connection.
	Reason string
}

// Error returns the evidence, the reason and the remedy.
func (e *LaunchError) Error() string {
	text := "pmi: this is one of several processes (" + e.Evidence + ") but there is no way to reach the others"
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text + "; " + e.Fix
}

// endpoint is the connection that the environment names, and the rank and size if the environment has them.
type endpoint struct {
	conn        conn
	rank, size  int
	rankUnknown bool // request rank and size from the launcher with id
	id          int
}

// dial opens the connection that PMI_FD names, or else PMI_PORT. Both results are nil if the job has only this process.
func dial(getenv func(string) string) (*endpoint, error) {
	if text := getenv("PMI_FD"); text != "" {
		fd, err := number("PMI_FD", text)
		if err != nil {
			return nil, err
		}
		return dialFD(fd, getenv)
	}
	addr := getenv("PMI_PORT")
	if addr == "" {
		return nil, checkSingleton(getenv, "")
	}
	id, err := number("PMI_ID", getenv("PMI_ID"))
	if err != nil {
		return nil, err
	}
	link, err := net.DialTimeout("tcp", addr, initTimeout)
	if err != nil {
		return nil, fmt.Errorf("pmi: connect to the launcher at PMI_PORT: %w", err)
	}
	return &endpoint{conn: link, rankUnknown: true, id: id}, nil
}

func dialFD(fd int, getenv func(string) string) (*endpoint, error) {
	link, err := openFD(fd)
	if err != nil {
		// A child process of a rank inherits the environment but not the descriptor. In a job of one process it needs no launcher.
		return nil, checkSingleton(getenv, fmt.Sprintf("PMI_FD=%d is %v", fd, err))
	}
	e := &endpoint{conn: link}
	if e.rank, err = number("PMI_RANK", getenv("PMI_RANK")); err == nil {
		e.size, err = number("PMI_SIZE", getenv("PMI_SIZE"))
	}
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return e, nil
}

// number parses the value of an environment variable, which must not be negative.
func number(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("pmi: %s=%q is not a number; the launcher sets it, do not change it", name, text)
	}
	return n, nil
}

// launcher describes the environment variables by which processes of a launcher can be recognized.
type launcher struct {
	process string // variable that is set in each process; empty if size is sufficient
	size    string // variable with the number of processes
	fix     string // the remedy, with %[1]s for that number and %[2]s for the program
}

// launchers returns the launchers that start several processes. A launcher that may run inside a job of another one comes
// before it, because its processes inherit the variables of both.
func launchers() []launcher {
	const direct = "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2, not with "
	const srun = "start it with: srun --mpi=pmi2 -n %[1]s %[2]s"
	return []launcher{
		{"", "PMI_SIZE", "its descriptor PMI_FD was closed; start it with: ibrun -n %[1]s %[2]s"},
		{"", "OMPI_COMM_WORLD_SIZE", direct + "Open MPI's mpirun: ibrun -n %[1]s %[2]s"},
		{"", "MV2_COMM_WORLD_SIZE", direct + "mpirun_rsh: ibrun -n %[1]s %[2]s"},
		{"", "JSM_NAMESPACE_SIZE", direct + "jsrun: ibrun -n %[1]s %[2]s"},
		{"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "start it with: flux run -o pmi=simple -n %[1]s %[2]s"},
		{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", srun},
		{"SLURM_PROCID", "SLURM_NTASKS", srun},
	}
}

// checkSingleton returns a [LaunchError] if the environment of a process without a connection shows that there are other
// processes. The first launcher that is recognized decides.
func checkSingleton(getenv func(string) string, reason string) error {
	program := os.Args[0]
	for _, t := range launchers() {
		size := getenv(t.size)
		if size == "" || t.process != "" && getenv(t.process) == "" {
			continue
		}
		if n, err := strconv.Atoi(size); err == nil && n <= 1 {
			return nil
		}
		return &LaunchError{Evidence: t.size + "=" + size, Fix: fmt.Sprintf(t.fix, size, program), Reason: reason}
	}
	for _, name := range []string{"PMIX_NAMESPACE", "PMIX_RANK"} {
		if value := getenv(name); value != "" {
			return &LaunchError{Evidence: name + "=" + value, Reason: reason, Fix: "start it with ibrun, mpiexec.hydra or " +
				"srun --mpi=pmi2; to run it alone: env -u PMIX_NAMESPACE -u PMIX_RANK " + program}
		}
	}
	return nil
}
