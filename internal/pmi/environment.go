package pmi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// LaunchError says that this process is one of several, but that nothing here connects them. Going on as a world of one
// would run the whole program that many times.
type LaunchError struct {
	// Evidence is what tells of other processes.
	Evidence string
	// Fix is what to type.
	Fix string
	// Reason is what was wrong with the launcher's connection, empty if there is no trace of one.
	Reason string
}

// Error tells what gave the other processes away, what was in the way, and what to type.
func (e *LaunchError) Error() string {
	text := "pmi: this is one of several processes (" + e.Evidence + ") but there is no way to reach the others"
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text + "; " + e.Fix
}

// endpoint is the connection that the environment names, and what the environment tells about this process.
type endpoint struct {
	conn       conn
	rank, size int
	ask        bool // rank and size are not known yet: tell the launcher id and it tells them
	id         int
}

// dial opens what PMI_FD or else PMI_PORT name. Both results are nil for a world of one.
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
		return nil, checkAlone(getenv, "")
	}
	id, err := number("PMI_ID", getenv("PMI_ID"))
	if err != nil {
		return nil, err
	}
	link, err := net.DialTimeout("tcp", addr, greetTimeout)
	if err != nil {
		return nil, fmt.Errorf("pmi: reach the launcher at PMI_PORT: %w", err)
	}
	return &endpoint{conn: link, ask: true, id: id}, nil
}

func dialFD(fd int, getenv func(string) string) (*endpoint, error) {
	link, err := openFD(fd)
	if err != nil {
		// The child of a rank has the rank's environment but not its descriptor; alone it needs no launcher.
		return nil, checkAlone(getenv, fmt.Sprintf("PMI_FD=%d is %v", fd, err))
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

// number reads a count from the environment.
func number(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("pmi: %s=%q is not a number: it is set by the launcher and should not be changed", name, text)
	}
	return n, nil
}

// trace is how a launcher's presence shows in the environment of the processes it starts.
type trace struct {
	process string // set in each process; empty if size tells enough
	size    string // how many processes there are
	fix     string // with %[1]s for that number and %[2]s for the program
}

// traces lists launchers that start several processes, those first that may run inside others: a job inherits the
// variables of what it was started from.
func traces() []trace {
	const direct = "start it with ibrun, mpiexec.hydra or srun --mpi=pmi2, not with "
	const srun = "start it with: srun --mpi=pmi2 -n %[1]s %[2]s"
	return []trace{
		{"", "PMI_SIZE", "the descriptor in PMI_FD did not get through to it; start it with: ibrun -n %[1]s %[2]s"},
		{"", "OMPI_COMM_WORLD_SIZE", direct + "Open MPI's mpirun: ibrun -n %[1]s %[2]s"},
		{"", "MV2_COMM_WORLD_SIZE", direct + "mpirun_rsh: ibrun -n %[1]s %[2]s"},
		{"", "JSM_NAMESPACE_SIZE", direct + "jsrun: ibrun -n %[1]s %[2]s"},
		{"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "start it with: flux run -o pmi=simple -n %[1]s %[2]s"},
		{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", srun},
		{"SLURM_PROCID", "SLURM_NTASKS", srun},
	}
}

// checkAlone returns an error if the environment of a process without a connection says that there are others. The
// first trace decides.
func checkAlone(getenv func(string) string, reason string) error {
	program := os.Args[0]
	for _, t := range traces() {
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
