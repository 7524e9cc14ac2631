package proctree

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// KillTimeout is how long a process may take to exit after SIGKILL. Only a process that is stuck in the kernel takes longer.
const KillTimeout = 10 * time.Second

// KillDescendants kills all descendants of this process until gone is closed: parents before their children, so that no shell
// executes its next command because its child was killed. It repeats the search, since a process may have started another one
// just before it was killed. It returns the pids of processes that are still alive after KillTimeout.
func KillDescendants(gone <-chan struct{}, group *Cgroup) (stuck []int) {
	deadline := time.Now().Add(KillTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-gone:
			return nil
		default:
		}
		group.Kill()
		below := Descendants(os.Getpid())
		for _, d := range below {
			SignalChild(d.PID, d.Parent, unix.SIGKILL)
		}
		select {
		case <-gone:
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return pids(below)
		}
	}
}

// SignalChild sends a signal to a process if its parent is still the given one, or is this process by now.
func SignalChild(pid, parent int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // the process has exited and was reaped
	}
	defer unix.Close(fd)
	// The descriptor refers to the same process for ever, unlike a pid. The process is the right one if it has this parent, or
	// has lost it and is now a child of this process.
	if p, err := ReadProcess(pid); err == nil && (p.Parent == parent || p.Parent == os.Getpid()) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // the process may have exited, or this user may not signal it
	}
}

// Descendant is a process below another one, and its parent.
type Descendant struct{ PID, Parent int }

// Descendants returns the living processes below root, parents before their children.
func Descendants(root int) []Descendant {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil // the kernel still kills the ranks when the agent exits
	}
	children := map[int][]Process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue // not a process
		}
		if p, err := ReadProcess(pid); err == nil {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	var below []Descendant
	for level := []int{root}; len(level) > 0; {
		var next []int
		for _, parent := range level {
			for _, p := range children[parent] {
				if !p.Zombie {
					below = append(below, Descendant{p.PID, parent})
				}
				next = append(next, p.PID)
			}
		}
		level = next
	}
	return below
}

// DescendantPIDs returns the pids of the living processes below root.
func DescendantPIDs(root int) []int { return pids(Descendants(root)) }

func pids(all []Descendant) []int {
	list := make([]int, len(all))
	for i, d := range all {
		list[i] = d.PID
	}
	return list
}
