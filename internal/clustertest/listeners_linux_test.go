package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// listeners returns the TCP addresses at which a process listens, as the kernel writes them: hexadecimal, with the port.
func listeners(t *testing.T, pid int) (all []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]bool{}
	for _, file := range files {
		target, _ := os.Readlink(file) // it may have been closed
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table)) // the process may have ended
		for line := range strings.Lines(string(text)) {
			const listen = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listen && sockets[f[9]] {
				all = append(all, f[1])
			}
		}
	}
	return all
}

// wantListeners checks that no process of the job listens at all addresses, and at how many ports the ibruns listen, in order.
// Programs of Slurm are not ours. The ranks run pi.
func (j *job) wantListeners(want ...int) {
	j.t.Helper()
	ranks := 0
	j.eventually("the ranks do not listen", func() bool {
		ranks = 0
		for _, pid := range j.find("pi") {
			ranks += min(1, len(listeners(j.t, pid)))
		}
		return ranks == 4
	})
	var counts []int
	var inherited []string // salloc listens, and its child inherits the socket
	for _, pid := range j.find("salloc") {
		inherited = append(inherited, listeners(j.t, pid)...)
	}
	for _, pid := range append(j.find("ibrun"), j.find("pi")...) {
		all := slices.DeleteFunc(listeners(j.t, pid), func(addr string) bool { return slices.Contains(inherited, addr) })
		for _, addr := range all {
			if host, _, _ := strings.Cut(addr, ":"); strings.Trim(host, "0") == "" {
				j.t.Errorf("process %d, %q, listens at all addresses: %s", pid, commandLine(pid), addr)
			}
		}
		if filepath.Base(commandLine(pid)[0]) == "ibrun" && len(all) > 0 {
			counts = append(counts, len(all))
		}
	}
	slices.Sort(counts)
	if !slices.Equal(counts, want) {
		j.t.Errorf("the ibruns listen at %d ports, want %d", counts, want)
	}
	_ = j.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	j.wait()
	j.nothingLeft()
}

// TestListeners: over ssh only ranks listen. Under Slurm each ibrun has one port, as SECURITY.md says. Nothing listens at all
// addresses.
func TestListeners(t *testing.T) {
	t.Parallel()
	long := []string{"ibrun", "--transport", "tcp", "pi", "-strips", "1000000000000"}
	newNetwork(t, ab, nil).start(slices.Insert(slices.Clone(long), 1, "--hosts", "a:2,b:2")...).wantListeners()
	salloc(t, long...).wantListeners(1, 1, 1)
}
