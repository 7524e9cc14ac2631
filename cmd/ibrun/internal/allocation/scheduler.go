package allocation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// fileVariables returns the variables by which other launchers find their host file.
func fileVariables() []string {
	return []string{"HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
		"I_MPI_HYDRA_HOST_FILE"}
}

// launcherFile returns the host file that a variable of another launcher names. Kubernetes' mpi-operator sets these variables,
// and K_MPI_JOB_ROLE, in the pod of the launcher.
func launcherFile(lookup func(string) string) (file, variable string) {
	for _, name := range fileVariables() {
		if file := lookup(name); file != "" {
			return file, name
		}
	}
	if lookup("K_MPI_JOB_ROLE") == "launcher" {
		return "/etc/mpi/hostfile", "K_MPI_JOB_ROLE=launcher"
	}
	return "", ""
}

// hasSlurm reports whether this process is part of a Slurm job whose hosts are known.
func hasSlurm(lookup func(string) string) bool {
	return lookup("SLURM_JOB_ID") != "" && (lookup("SLURM_JOB_NODELIST") != "" || len(hetSuffixes(lookup)) > 0)
}

// inSlurm makes srun start the hosts that the user has chosen, if all are nodes of the Slurm job of this process. Those without a
// number then have the slots that they have in the job. It returns a, which may be nil.
func (a *Allocation) inSlurm(lookup func(string) string, perNode int) *Allocation {
	if a == nil || !hasSlurm(lookup) {
		return a
	}
	job, err := fromSlurm(lookup, a.thisHost, perNode)
	if err != nil { // the user has named hosts, and they are reached by ssh
		return a
	}
	hosts := make([]Host, len(a.Hosts))
	for i, h := range a.Hosts {
		at := slices.IndexFunc(job.Hosts, func(node Host) bool { return hostKey(node.Name) == hostKey(h.Name) })
		if at < 0 || h.User != "" {
			return a
		}
		hosts[i] = h
		hosts[i].Name, hosts[i].Group = job.Hosts[at].Name, job.Hosts[at].Group
		hosts[i].Slots = cmp.Or(h.Slots, job.Hosts[at].Slots)
	}
	a.Hosts, a.Starter, a.Groups, a.thisHost = hosts, Slurm, job.Groups, job.thisHost
	a.setHere()
	return a
}

// fromSlurm returns the hosts of the Slurm job that this process is part of. perNode is the number of slots of each host if the
// user has said it.
func fromSlurm(lookup func(string) string, thisHost string, perNode int) (*Allocation, error) {
	a := &Allocation{Source: "Slurm job " + lookup("SLURM_JOB_ID"), Starter: Slurm}
	suffixes := hetSuffixes(lookup)
	if a.Groups = len(suffixes); a.Groups == 0 {
		suffixes = []string{""}
	}
	seen := map[string]int{}
	for group, suffix := range suffixes {
		hosts, err := a.slurmHosts(lookup, suffix, perNode)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Source, err)
		}
		for _, h := range hosts {
			if i, ok := seen[h.Name]; ok { // two components share the host
				a.Hosts[i].Slots += h.Slots
				continue
			}
			h.Group = group
			seen[h.Name] = len(a.Hosts)
			a.Hosts = append(a.Hosts, h)
		}
	}
	if tasks, err := strconv.Atoi(lookup("SLURM_NTASKS")); err == nil && a.Groups == 0 && tasks > 0 && tasks < a.Slots() {
		a.Tasks = tasks
	}
	a.thisHost = cmp.Or(lookup("SLURMD_NODENAME"), thisHost) // a step and a batch script know Slurm's name of this host
	a.setHere()
	return a, nil
}

// hetSuffixes returns the suffixes of the variables of each component of a heterogeneous job. Slurm called them packs before
// version 20.02.
func hetSuffixes(lookup func(string) string) (suffixes []string) {
	for _, kind := range []string{"HET", "PACK"} {
		n, err := strconv.Atoi(lookup("SLURM_" + kind + "_SIZE"))
		if err != nil || n < 1 || n > maxHosts {
			continue
		}
		for i := range n {
			suffixes = append(suffixes, fmt.Sprintf("_%s_GROUP_%d", kind, i))
		}
		return suffixes
	}
	return nil
}

// slurmHosts returns the hosts of a job, or of the component of a job with this suffix.
func (a *Allocation) slurmHosts(lookup func(string) string, suffix string, perNode int) ([]Host, error) {
	names, tasks, err := a.slurmTasks(lookup, suffix)
	switch {
	case perNode > 0 && names != nil:
		return withSlots(names, []int{perNode}), nil
	case err != nil:
		return nil, err
	case len(tasks) == len(names):
		return withSlots(names, tasks), nil
	}
	each, err := slurmCounts(lookup, "SLURM_NTASKS_PER_NODE"+suffix)
	if err != nil {
		return nil, err
	}
	if len(each) == 1 {
		return withSlots(names, each), nil
	}
	cpus, err := slurmCounts(lookup, "SLURM_JOB_CPUS_PER_NODE"+suffix)
	switch {
	case err != nil:
		return nil, err
	case len(cpus) != len(names):
		return nil, fmt.Errorf("SLURM_TASKS_PER_NODE%s=%q and SLURM_JOB_CPUS_PER_NODE%[1]s=%[3]q do not say how many tasks each of "+
			"its %[4]d nodes has: write --ppn N", suffix, lookup("SLURM_TASKS_PER_NODE"+suffix),
			lookup("SLURM_JOB_CPUS_PER_NODE"+suffix), len(names))
	}
	perTask, err := strconv.Atoi(cmp.Or(lookup("SLURM_CPUS_PER_TASK"+suffix), "1"))
	if err != nil || perTask < 1 {
		return nil, fmt.Errorf("SLURM_CPUS_PER_TASK%s=%q is not a number", suffix, lookup("SLURM_CPUS_PER_TASK"+suffix))
	}
	for i := range cpus {
		cpus[i] = max(1, cpus[i]/perTask)
	}
	return withSlots(names, cpus), nil
}

// slurmTasks returns the nodes of a job, or of the component of a job with this suffix, and the tasks on each. In a step they are
// those of the step, whose variables replace those of the job, except the list of nodes. The nodes are also returned if the tasks
// are invalid.
func (a *Allocation) slurmTasks(lookup func(string) string, suffix string) (names []string, tasks []int, err error) {
	if names, err = slurmNames(lookup, "SLURM_JOB_NODELIST"+suffix); err != nil {
		return nil, nil, err
	}
	tasks, err = slurmCounts(lookup, "SLURM_TASKS_PER_NODE"+suffix)
	if err != nil || len(tasks) == len(names) || suffix != "" || lookup("SLURM_STEP_NODELIST") == "" {
		return names, tasks, err
	}
	step, err := slurmNames(lookup, "SLURM_STEP_NODELIST")
	if err != nil {
		return nil, nil, err
	}
	counts, err := slurmCounts(lookup, "SLURM_STEP_TASKS_PER_NODE")
	if err != nil || len(counts) != len(step) {
		return names, tasks, err
	}
	if len(step) < len(names) {
		a.Notes = append(a.Notes, fmt.Sprintf("ibrun runs in a step that has %d of the %d nodes of %s, and uses no others (without "+
			"srun it uses all)", len(step), len(names), a.Source))
	}
	return step, counts, nil
}

// slurmNames returns the hosts of a variable with a host list. It must be set.
func slurmNames(lookup func(string) string, variable string) ([]string, error) {
	text := lookup(variable)
	if text == "" {
		return nil, fmt.Errorf("%s is not set", variable)
	}
	names, err := ExpandHostList(text)
	for _, name := range names {
		if err == nil {
			err = checkHost(name, 0)
		}
	}
	return names, inVariable(variable, err)
}

// slurmCounts returns the numbers of a variable, or nil if it is not set.
func slurmCounts(lookup func(string) string, variable string) ([]int, error) {
	text := lookup(variable)
	if text == "" {
		return nil, nil
	}
	counts, err := ExpandCounts(text)
	return counts, inVariable(variable, err)
}

// inVariable adds the name of the variable to a syntax error.
func inVariable(variable string, err error) error {
	if e, ok := errors.AsType[*inputfile.SyntaxError](err); ok {
		e.Source = variable
	}
	return err
}

// withSlots returns hosts with these slots. The last number counts for the hosts after it. Hosts without slots run no tasks.
func withSlots(names []string, slots []int) (hosts []Host) {
	for i, name := range names {
		if n := slots[min(i, len(slots)-1)]; n > 0 {
			hosts = append(hosts, Host{Name: name, Slots: n})
		}
	}
	return hosts
}

// fromBatchSystem returns the hosts of a job of PBS or LSF, or nil.
func fromBatchSystem(lookup func(string) string, thisHost string) (*Allocation, error) {
	for _, variable := range []string{"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"} {
		if name := lookup(variable); name != "" {
			return fromSlotFile(name, variable, thisHost)
		}
	}
	text := lookup("LSB_MCPU_HOSTS")
	if text == "" {
		return nil, nil
	}
	hosts, err := parseHostsAndCounts(text)
	if err != nil {
		return nil, inVariable("LSB_MCPU_HOSTS", err)
	}
	return newAllocation("LSF job "+lookup("LSB_JOBID"), hosts, nil, thisHost)
}

// fromSlotFile returns the hosts of a file with a line for each slot.
func fromSlotFile(name, variable, thisHost string) (*Allocation, error) {
	text, err := inputfile.Read(name, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("read the file that %s names: %w (to run on this host: --hosts localhost)", variable, err)
	}
	hosts, notes, err := ParseHostFile(name, text)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		if hosts[i].Slots == 0 {
			hosts[i].Slots = 1
		}
	}
	return newAllocation(variable+"="+name, hosts, notes, thisHost)
}

// parseHostsAndCounts parses HOST COUNT HOST COUNT... The error is a [*inputfile.SyntaxError].
func parseHostsAndCounts(text string) (hosts []Host, err error) {
	at := 0
	word := func() (word string, begin int) {
		begin = len(text) - len(strings.TrimLeft(text[at:], " \t"))
		word = text[begin:]
		if i := strings.IndexAny(word, " \t"); i >= 0 {
			word = word[:i]
		}
		at = begin + len(word)
		return word, begin
	}
	for {
		name, nameAt := word()
		if name == "" {
			return hosts, nil
		}
		if err := checkHost(name, nameAt); err != nil {
			return nil, err
		}
		nameEnd := at
		number, numberAt := word()
		if number == "" {
			return nil, errorAt(nameEnd, "the number of slots of %s is missing", name)
		}
		n, err := parseSlots(number, numberAt)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, Host{Name: name, Slots: n})
		if len(hosts) > maxHosts {
			return nil, errorAt(numberAt, "there are more than %d hosts", maxHosts)
		}
	}
}
