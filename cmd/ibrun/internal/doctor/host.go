package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// Host is the input of the checks: data of a machine and of the process, and the results of probes.
type Host struct {
	Root    fs.FS        // of the machine: sys/..., proc/..., etc/..., usr/lib/...
	Top     *hw.Topology // read from Root; on a live machine also what can be opened and what is in another namespace
	Getenv  func(string) string
	Name    string // of the host
	Version string // of this ibrun
	// Live reports that Root is the running machine and not a captured tree, so the state of processes is known.
	Live bool
	// FlowControl returns the priority flow control of an interface, found = false if it has none. It is nil for a captured tree.
	FlowControl func(netdev string) (f flowControl, found bool, err error)
	MTUs        map[string]PortMTU      // of active ports of devices that could be opened, by names such as mlx5_0/1
	Networks    map[string]netip.Prefix // of the addresses of RoCE ports, by the same names
	Pings       []Ping                  // between RDMA ports of this machine
	// Refused has the active ports that a job can open, by the same names: why it cannot use them, nil if it can. It also has
	// the devices and ports that IBRUN_RDMA_DEVICES names, if they do not exist or are not active.
	Refused map[string]error
	// UnusedInterfaces are the lines that a job prints about elements of IBRUN_TCP_INTERFACES that this host does not have.
	// InterfacesErr says why a job can use no interface. Both are meaningless if a setting is invalid.
	UnusedInterfaces []string
	InterfacesErr    error
	Peers            []Peer // the hosts given on the command line
}

// Ping is a message of one byte from one RDMA port to another.
type Ping struct {
	From, To string // device/port
	Time     time.Duration
	Err      error
}

// Peer is another host and the results of probing it.
type Peer struct {
	Name         string
	ConnectTime  time.Duration // time to make a TCP connection to its ssh port; 0 if only ssh can reach it
	ConnectErr   error         // why the host is unreachable, also by ssh
	LoginErr     error         // why ssh could not run a command there; the fields below are then unknown
	Version      string        // of its ibrun; empty if the command was not found
	ClockOffset  time.Duration // how far its clock is ahead, within ±ClockError
	ClockError   time.Duration
	ConnectsBack bool          // it can connect to a port of this machine
	Ports        []portSummary // its RDMA ports; unknown if PortsErr is set
	PortsErr     error
}

// maxText bounds the bytes that are read of one file.
const maxText = 1 << 20

// readText returns the content of a file without its last newline.
func (h *Host) readText(name string) (string, error) {
	f, err := h.Root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() // errors do not matter for a file that was only read
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// fileExists reports whether a file exists.
func (h *Host) fileExists(name string) bool {
	_, err := fs.Stat(h.Root, name)
	return err == nil
}

// unknownFinding returns the finding for data that could not be read.
func unknownFinding(what string, err error) []Finding {
	if errors.Is(err, fs.ErrNotExist) {
		return infoFinding("%s is unknown: there is no such file: %v", what, err)
	}
	return infoFinding("%s is unknown: %v", what, err)
}

// unlimited is the value of a resource limit that does not limit.
const unlimited = ^uint64(0)

// readLimit returns the values of a line of /proc/self/limits: "Max locked memory   8388608   unlimited   bytes".
func (h *Host) readLimit(name string) (soft, hard uint64, err error) {
	const file = "proc/self/limits"
	text, err := h.readText(file)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, name)
		words := strings.Fields(rest)
		if !found || len(words) < 2 {
			continue
		}
		if soft, err = limitValue(words[0]); err == nil {
			hard, err = limitValue(words[1])
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s in %s: %w", name, file, err)
		}
		return soft, hard, nil
	}
	return 0, 0, fmt.Errorf("%s has no line %q", file, name)
}

func limitValue(word string) (uint64, error) {
	if word == "unlimited" {
		return unlimited, nil
	}
	return strconv.ParseUint(word, 10, 64)
}

// readField returns the value in a file of lines "NAME: VALUE" or "NAME:\tVALUE unit".
func (h *Host) readField(file, name string) (string, error) {
	text, err := h.readText(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%s has no line %s", file, name)
}

// container returns the kind of container that the process runs in, or "".
func (h *Host) container() string {
	for name, what := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman",
		".singularity.d":            "apptainer",
		"run/secrets/kubernetes.io": "kubernetes"} {
		if h.fileExists(name) {
			return what
		}
	}
	text, err := h.readText("proc/1/cgroup")
	if err != nil {
		return ""
	}
	for _, what := range []string{"kubepods", "docker", "libpod", "lxc"} {
		if strings.Contains(text, what) {
			return what
		}
	}
	return ""
}

// size formats bytes with a power of 1024.
func size(n uint64) string {
	switch {
	case n == unlimited:
		return "unlimited"
	case n >= 1<<30:
		return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
}

// sortedKeys returns the keys of a map in ascending order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
