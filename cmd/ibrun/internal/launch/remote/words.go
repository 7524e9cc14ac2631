package remote

import (
	"fmt"
	"strconv"
	"strings"
)

// inPath is the command by which a shell finds ibrun in its PATH.
const inPath = "ibrun"

// connectTimeout is how long ssh may take for a TCP connection, in seconds.
const connectTimeout = 8

// agentCommand returns the command that starts ibrun on a host.
func (o *Options) agentCommand(h Host, program string) []string {
	host := h.Name
	if len(o.Agent) > 0 {
		if h.User != "" {
			host = h.User + "@" + host
		}
		return append(append([]string{}, o.Agent...), host, program, "node")
	}
	words := []string{"ssh", "-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + strconv.Itoa(connectTimeout)}
	words = append(words, o.sshArguments()...)
	if h.User != "" {
		words = append(words, "-l", h.User)
	}
	return append(words, host, quote(program)+" node") // the host runs it in a shell
}

// sshArguments returns the arguments of ssh that variables of other launchers contain, as mpi-operator sets them.
func (o *Options) sshArguments() (words []string) {
	for _, name := range []string{"HYDRA_LAUNCHER_EXTRA_ARGS", "HYDRA_LAUNCH_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
		"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"} {
		words = append(words, strings.Fields(o.Lookup(name))...)
	}
	return words
}

// srunCommand returns the command that starts ibrun once on each host of a component of the Slurm job.
func (o *Options) srunCommand(hosts []Host, group int) []string {
	words := []string{"srun", "--overlap"} // the ranks of node 0, and of other jobs in the allocation, use the same processors
	if o.Groups > 0 {
		words = append(words, "--het-group="+strconv.Itoa(group))
	}
	n := strconv.Itoa(len(hosts))
	return append(words, "--nodes="+n, "--ntasks="+n, "--ntasks-per-node=1", "--nodelist="+hostNames(hosts), "--mpi=none",
		"--input=all", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--chdir=/", "--job-name=ibrun",
		o.Program, "node")
}

// slurmPrefixes returns prefixes of the variables that srun does not inherit. In the shell of a job they describe the job's own
// tasks, and srun would take them for options of the step.
func slurmPrefixes() []string { return []string{"SLURM_", "SRUN_", "SALLOC_", "SBATCH_"} }

// srunVariables returns the variables that srun needs nevertheless: which job it belongs to, and how it reaches the controller.
func (o *Options) srunVariables() []string {
	names := []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_WORKING_CLUSTER", "SLURM_CONF_SERVER",
		"SLURM_JWT", "SLURM_HET_SIZE"}
	for group := range o.Groups {
		names = append(names, fmt.Sprintf("SLURM_JOB_ID_HET_GROUP_%d", group), fmt.Sprintf("SLURM_JOB_NODELIST_HET_GROUP_%d", group))
	}
	env := []string{}
	for _, name := range names {
		if value := o.Lookup(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// hostNames returns the names of hosts as a list.
func hostNames(hosts []Host) string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return strings.Join(names, ",")
}

// withHost returns a line that a command has written, for a line of the head: after the name of the host, and without that of
// ibrun, which is printed before it. Most lines of ibrun name the host themselves. host is empty if it is not known.
func withHost(line, host string) string {
	if own, ok := strings.CutPrefix(line, "ibrun on "); ok {
		return own
	}
	line = strings.TrimPrefix(line, "ibrun: ")
	if host == "" {
		return line
	}
	return host + ": " + line
}

// quoted returns words as a user types them in a shell.
func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = quote(w)
	}
	return strings.Join(list, " ")
}

// quote returns a word with quotes, unless no shell needs them.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:,=@+%", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
