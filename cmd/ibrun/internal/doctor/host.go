package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// Host is all that is known of a machine, of the process that asks, and of what it tried.
type Host struct {
	Root   fs.FS        // of the machine: sys/..., proc/..., etc/..., usr/lib/...
	Top    *hw.Topology // read from Root; on a live machine also what can be opened and what is in another namespace
	Getenv func(string) string
	Name   string // of the host
	Binary string // ibrun's version
	// Live says that Root is the machine this process runs on, and not a captured tree: what processes have is known.
	Live  bool
	Pings []Ping // tried between RDMA ports of this machine
	Peers []Peer // the hosts that were asked for
}

// Ping is a message of one byte from one RDMA port to another.
type Ping struct {
	From, To string // device/port
	Time     time.Duration
	Err      error
}

// Peer is another host and what came of asking it.
type Peer struct {
	Name    string
	Connect time.Duration // to make a TCP connection to its ssh port; 0 where only ssh knows the way
	Refused error         // it could not be reached, by ssh neither
	Login   error         // ssh did not run a command there; the rest is then unknown
	Binary  string        // its ibrun version, empty when the command was not found
	Skew    time.Duration // by which its clock is ahead, give or take Round
	Round   time.Duration
	Back    bool // it can connect to a port of this machine
}

// maxText bounds what is read of one file.
const maxText = 1 << 20

// text reads a file without its last newline.
func (h *Host) text(name string) (string, error) {
	f, err := h.Root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() // of a file that was only read: there is nothing to lose
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// exists tells whether a file is there.
func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, name)
	return err == nil
}

// unknown is the finding about a file that tells nothing.
func unknown(what string, err error) []Finding {
	if errors.Is(err, fs.ErrNotExist) {
		return hint("%s is unknown: the file is not there: %v", what, err)
	}
	return hint("%s is unknown: %v", what, err)
}

// unlimited is the limit that is none.
const unlimited = ^uint64(0)

// limit reads a line of /proc/self/limits: "Max locked memory   8388608   unlimited   bytes".
func (h *Host) limit(name string) (soft, hard uint64, err error) {
	const file = "proc/self/limits"
	text, err := h.text(file)
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

// field reads a line of a file of lines "NAME: VALUE" or "NAME:\tVALUE unit".
func (h *Host) field(file, name string) (string, error) {
	text, err := h.text(file)
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

// container names what the process is in, or is "".
func (h *Host) container() string {
	for name, what := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman",
		".singularity.d":            "apptainer",
		"run/secrets/kubernetes.io": "kubernetes"} {
		if h.exists(name) {
			return what
		}
	}
	text, err := h.text("proc/1/cgroup")
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

// size writes bytes with a power of 1024.
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

// sortedKeys are the keys of a map, in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
