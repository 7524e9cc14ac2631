package launch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long a process may take to die of SIGKILL. Only one that is stuck in the kernel takes so long.
const killTimeout = 10 * time.Second

// KillDescendants kills what is below this process, again and again, until gone says that nothing is left, since a
// process may have started another one just before it was killed. It returns the pids of those that do not die.
func KillDescendants(gone <-chan struct{}, group *Cgroup) (stuck []int) {
	deadline := time.Now().Add(killTimeout)
	for pause := time.Millisecond; !isClosed(gone); pause = min(2*pause, 50*time.Millisecond) {
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
	return nil
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

// Process is what matters here of /proc/PID/stat.
type Process struct {
	PID, Parent int
	Zombie      bool // dead, but not taken in by its parent
	Exiting     bool // that, or on the way to it
	State       byte // R, S, D, T, t, Z and others, as proc(5) lists them
	CPU         time.Duration
}

// tick is the unit in which the kernel tells what processor time was used.
const tick = 10 * time.Millisecond

// flagExiting is the kernel's PF_EXITING among a process's flags.
const flagExiting = 0x4

var errStat = errors.New("malformed stat file of a process")

func ReadProcess(pid int) (Process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(string(text))
}

// parseStat reads "PID (NAME) STATE PARENT GROUP SESSION TERMINAL TERMINAL-GROUP FLAGS ...\n". The name may hold
// anything, brackets and newlines too. Behind the flags come four counters of faults, and the ticks spent in user mode and in
// the kernel.
func parseStat(text string) (Process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open || !strings.HasSuffix(text, "\n") {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	rest := strings.Fields(text[end+1:])
	if len(rest) < 7 || len(rest[0]) != 1 {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, errParent := strconv.Atoi(rest[1])
	flags, errFlags := strconv.ParseUint(rest[6], 10, 64)
	if errPID != nil || errParent != nil || errFlags != nil {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	p := Process{PID: pid, Parent: parent, Zombie: strings.Contains("ZX", rest[0]), State: rest[0][0]}
	p.Exiting = p.Zombie || flags&flagExiting != 0
	for _, ticks := range rest[min(len(rest), 11):min(len(rest), 13)] {
		n, err := strconv.ParseInt(ticks, 10, 48)
		if err != nil || n < 0 {
			return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
		}
		p.CPU += time.Duration(n) * tick
	}
	return p, nil
}
