package allocation

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Starter is how processes are started on the other hosts of an allocation.
type Starter int

// The starters.
const (
	SSH   Starter = iota // by ssh, or by what the user has chosen instead
	Slurm                // by srun, in the job of the allocation
)

// String returns the name of the program that starts processes.
func (s Starter) String() string {
	if s == Slurm {
		return "srun"
	}
	return "ssh"
}

// Host is a host that the job may use.
type Host struct {
	// Name is the host's name as the source writes it. User is the name of the user there; empty: the same as here.
	Name, User string
	// Slots is how many ranks the host has room for. 0: not known; on this host alone as many as it has cores.
	Slots int
	// Skip is how many slots of the host, before those of this job, belong to other jobs: see [Options.Offset].
	Skip int
	// MaxSlots is how many ranks the host accepts if ranks share slots. 0: there is no limit.
	MaxSlots int
	// Group is the component of a heterogeneous Slurm job that the host belongs to.
	Group int
}

// Allocation is the hosts of a job.
type Allocation struct {
	// Source is where the hosts come from, for messages: "Slurm job 12", "--hosts", "host file F".
	Source string
	// Starter starts processes on the other hosts.
	Starter Starter
	// Hosts are in the order in which ranks are assigned to them, without those before [Options.Offset]. There is at least one,
	// and their names differ.
	Hosts []Host
	// Here reports that the first host is this one.
	Here bool
	// Tasks is how many ranks a job has if the user gives no number. 0: one for each slot.
	Tasks int
	// Packed reports that other jobs may use the slots that this one does not: the user has given [Options.Offset].
	Packed bool
	// Groups is the number of components of a heterogeneous Slurm job, otherwise 0.
	Groups int
	// Notes are what the user should know: one sentence each.
	Notes []string

	thisHost string // the name of this host, as the source writes it
}

// Options are what the user has said about hosts.
type Options struct {
	// Hosts is a list such as "a,b:4,user@c:2". Empty: not given.
	Hosts string
	// Files are the names of host files, whose hosts are those of the job. Empty: not given.
	Files []string
	// PerNode is how many slots every host has, in place of what the source gives. 0: not given.
	PerNode int
	// Offset is how many slots of the list other jobs use; it counts only if Packed is set. This job uses those after them.
	Offset int
	Packed bool
	// Manual means that the user starts every node himself: there is nothing to find.
	Manual bool
	// Terminal means that this process has a controlling terminal: in a step of srun --pty only the first task has one.
	Terminal bool
	// Command is the program and its arguments, for messages with the remedy.
	Command []string
}

// maxHosts bounds the number of hosts, maxSlots the slots of a host, and maxName the length of a name in bytes.
const (
	maxHosts = 1 << 16
	maxSlots = 1 << 20
	maxName  = 255
)

// Find returns the hosts for a job, or nil if the job runs on this host and its number of slots is not given. lookup returns
// environment variables, empty if they are not set. thisHost is the name of this host.
func Find(o Options, lookup func(string) string, thisHost string) (*Allocation, error) {
	if o.Manual {
		return nil, nil
	}
	a, err := find(o, lookup, thisHost)
	if err != nil {
		return nil, err
	}
	if !a.onlyHere() || o.Hosts == "" { // the user has not said that each process is to start a job of its own
		if err := checkParent(o, lookup); err != nil {
			return nil, err
		}
	}
	if a == nil {
		return nil, nil
	}
	if len(a.Hosts) == 0 {
		return nil, fmt.Errorf("%s names no host", a.Source)
	}
	if o.PerNode > 0 {
		a.Tasks = 0
		for i := range a.Hosts {
			a.Hosts[i].Slots = o.PerNode
		}
	}
	return a, a.skip(o)
}

// find returns the hosts of the first source that is given, or nil.
func find(o Options, lookup func(string) string, thisHost string) (*Allocation, error) {
	switch {
	case o.Hosts != "":
		hosts, err := ParseHosts(o.Hosts)
		if err != nil {
			return nil, fmt.Errorf("--hosts: %w", err)
		}
		a, err := newAllocation("--hosts", hosts, nil, thisHost)
		return a.inSlurm(lookup, o.PerNode), err
	case len(o.Files) != 0:
		a, err := fromFiles(o.Files, "host file "+strings.Join(o.Files, ", "), thisHost)
		return a.inSlurm(lookup, o.PerNode), err
	}
	if lookup("IBRUN_FD") != "" { // a rank starts a job of its own; all ranks together must not fill the hosts
		return nil, nil
	}
	if name, variable := launcherFile(lookup); name != "" {
		a, err := fromFiles([]string{name}, fmt.Sprintf("host file %s (%s)", name, variable), thisHost)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w (it is read because of %s; to run on this host: --hosts localhost)", err, variable)
		}
		return a, err
	}
	if hasSlurm(lookup) {
		return fromSlurm(lookup, thisHost, o.PerNode)
	}
	return fromBatchSystem(lookup, thisHost)
}

// newAllocation returns an allocation of hosts that ssh reaches. Entries of the same host become one, with all of their slots. If
// there are such entries, those without a number are one slot each: the list has an entry for each rank.
func newAllocation(source string, hosts []Host, notes []string, thisHost string) (*Allocation, error) {
	a := &Allocation{Source: source, Notes: notes, thisHost: thisHost}
	index := map[string]int{} // name: index into a.Hosts
	for _, h := range hosts {
		index[hostKey(h.Name)] = 0
	}
	perRank := len(index) < len(hosts)
	clear(index)
	for _, h := range hosts {
		if perRank && h.Slots == 0 {
			h.Slots = 1
		}
		i, found := index[hostKey(h.Name)]
		if !found {
			index[hostKey(h.Name)] = len(a.Hosts)
			a.Hosts = append(a.Hosts, h)
			continue
		}
		if err := a.Hosts[i].add(h); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	a.setHere()
	return a, nil
}

// add adds the slots of another entry of the host.
func (h *Host) add(more Host) error {
	if more.User != h.User {
		return fmt.Errorf("host %s is listed with two users: %q and %q", h.Name, h.User, more.User)
	}
	h.Slots += more.Slots
	h.MaxSlots = max(h.MaxSlots, more.MaxSlots)
	if h.Slots > maxSlots {
		return fmt.Errorf("host %s has more than %d slots", h.Name, maxSlots)
	}
	return nil
}

// setHere sets Here.
func (a *Allocation) setHere() { a.Here = len(a.Hosts) > 0 && SameHost(a.Hosts[0].Name, a.thisHost) }

// onlyHere reports whether the allocation is this host.
func (a *Allocation) onlyHere() bool { return a != nil && len(a.Hosts) == 1 && a.Here }

// Slots returns the number of slots of all hosts. It is 0 if that of one host is not known.
func (a *Allocation) Slots() int {
	sum := 0
	for _, h := range a.Hosts {
		if h.Slots == 0 {
			return 0
		}
		sum += h.Slots
	}
	return sum
}

// skip removes the first Offset slots.
func (a *Allocation) skip(o Options) error {
	if a.Packed = o.Packed; !o.Packed {
		return nil
	}
	left, total := o.Offset, a.Slots()
	for left > 0 && len(a.Hosts) > 0 {
		h := &a.Hosts[0]
		if h.Slots == 0 {
			if len(a.Hosts) == 1 && a.Here { // the placement on this host counts the cores
				h.Skip, left = left, 0
				break
			}
			return fmt.Errorf("--offset %d counts slots, but %s does not say how many host %s has: "+
				"write %[3]s:N or --ppn N", o.Offset, a.Source, h.Name)
		}
		if left < h.Slots {
			h.Skip, h.Slots, left = left, h.Slots-left, 0
			break
		}
		left -= h.Slots
		a.Hosts = a.Hosts[1:]
		a.setHere()
	}
	if len(a.Hosts) == 0 {
		return fmt.Errorf("--offset %d leaves none of the %d slots of %s", o.Offset, total, a.Source)
	}
	if a.Tasks > 0 {
		a.Tasks = max(1, a.Tasks-o.Offset)
	}
	return nil
}

// hostKey returns a name such that two names of a host which differ in case, or by the dot that ends an absolute name, have the
// same.
func hostKey(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// SameHost reports whether a name in a list of hosts means the host with the name thisHost. A name without a domain means the
// host of that name in any domain.
func SameHost(name, thisHost string) bool {
	name, thisHost = hostKey(name), hostKey(thisHost)
	if name == thisHost || slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, name) {
		return true
	}
	short, _, hasDomain := strings.Cut(name, ".")
	shortThis, _, hasDomainThis := strings.Cut(thisHost, ".")
	return short == shortThis && !(hasDomain && hasDomainThis) && strings.ContainsFunc(short, isNotDigit)
}

func isNotDigit(r rune) bool { return r < '0' || r > '9' }
