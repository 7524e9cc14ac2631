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
	// The ranks of node 0, and of other jobs in the allocation, use the same processors.
	words := []string{"srun", "--overlap"}
	if o.Groups > 0 {
		words = append(words, "--het-group="+strconv.Itoa(group))
	}
	n := strconv.Itoa(len(hosts))
	return append(words, "--nodes="+n, "--ntasks="+n, "--ntasks-per-node=1", "--nodelist="+foldedNames(hosts), "--mpi=none",
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

// foldedNames returns the names of hosts as Slurm abbreviates them, in their order: n1,n2,n3,n7 are n[1-3,7]. The names of
// thousands of hosts would make a command longer than the kernel and the watcher accept.
func foldedNames(hosts []Host) string {
	var names, ranges []string
	prefix := "" // of ranges
	flush := func() {
		switch {
		case len(ranges) == 1 && !strings.Contains(ranges[0], "-"):
			names = append(names, prefix+ranges[0])
		case len(ranges) > 0:
			names = append(names, prefix+"["+strings.Join(ranges, ",")+"]")
		}
		ranges = nil
	}
	for i := 0; i < len(hosts); {
		begin, first := cutNumber(hosts[i].Name)
		last := first
		for i++; first != "" && i < len(hosts) && hosts[i].Name == begin+following(last); i++ {
			last = following(last)
		}
		if begin != prefix || first == "" {
			flush()
			prefix = begin
		}
		switch {
		case first == "":
			names = append(names, begin)
		case last == first:
			ranges = append(ranges, first)
		default:
			ranges = append(ranges, first+"-"+last)
		}
	}
	flush()
	return strings.Join(names, ",")
}

// maxDigits is how long a number in the name of a host is at most. A longer one is not a number.
const maxDigits = 9

// cutNumber cuts off the number with which the name of a host ends. It is empty if there is none.
func cutNumber(name string) (begin, number string) {
	begin = strings.TrimRight(name, "0123456789")
	if number = name[len(begin):]; len(number) > maxDigits {
		return name, ""
	}
	return begin, number
}

// following returns the number after this one. It has at least as many digits.
func following(number string) string {
	n, _ := strconv.Atoi(number) // it has at most maxDigits digits, and nothing else
	return fmt.Sprintf("%0*d", len(number), n+1)
}

// hostNames returns the names of hosts as a list.
func hostNames(hosts []Host) string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return strings.Join(names, ",")
}

// withHost returns a line that a command has written, for a line of the coordinator: after the name
// of the host, and without that of ibrun, which is printed before it. Most lines of ibrun name the
// host themselves. host is empty if it is not known.
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
