package proctree

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long a process may take to die of SIGKILL. Only one that is stuck in the kernel takes so long.
const killTimeout = 10 * time.Second

// KillDescendants kills what is below this process, again and again, until gone says that nothing is left, since a
// process may have started another one just before it was killed. It returns the pids of those that do not die.
func KillDescendants(gone <-chan struct{}, group *Cgroup) (stuck []int) {
	deadline := time.Now().Add(killTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-gone:
			return nil
		default:
		}
		group.Kill()
		below := Descendants(os.Getpid())
		for pid, parent := range below {
			SignalChild(pid, parent, unix.SIGKILL)
		}
		select {
		case <-gone:
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return slices.Collect(maps.Keys(below))
		}
	}
}

// SignalChild signals a process if it is still the one that has this parent.
func SignalChild(pid, parent int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has died, and its number is free
	}
	defer unix.Close(fd)
	// The descriptor means one process for ever. If that one has this parent, or lost it to this process, it is the
	// one.
	if p, err := ReadProcess(pid); err == nil && (p.Parent == parent || p.Parent == os.Getpid()) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have died, or may not be ours to signal
	}
}

// Descendants returns the living processes below a process, with the parent of each.
func Descendants(root int) map[int]int {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil // children of this process are killed without this
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
	below := map[int]int{}
	for level := []int{root}; len(level) > 0; {
		var next []int
		for _, parent := range level {
			for _, p := range children[parent] {
				if !p.Zombie {
					below[p.PID] = parent
				}
				next = append(next, p.PID)
			}
		}
		level = next
	}
	return below
}
