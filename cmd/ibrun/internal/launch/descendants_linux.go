package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long a process may take to die of SIGKILL. Only one that is stuck in the kernel takes so long.
const killPatience = 10 * time.Second

// killDescendants kills what is below this process, again and again, until gone says that nothing is left, since a process
// may have started another one just before it was killed. It returns the pids of those that do not die.
func killDescendants(gone <-chan struct{}, group *cgroup) (stuck []int) {
	deadline := time.Now().Add(killPatience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		group.kill()
		below := descendants(os.Getpid())
		for pid, parent := range below {
			signalChild(pid, parent, unix.SIGKILL)
		}
		select {
		case <-gone:
			return nil
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			for pid := range below {
				stuck = append(stuck, pid)
			}
			return stuck
		}
	}
}

// signalChild signals a process if it is still the one that has this parent.
func signalChild(pid, parent int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has died, and its number is free
	}
	defer unix.Close(fd)
	// The descriptor means one process for ever. If that one has this parent, or lost it to this process, it is the one.
	if p, err := readProcess(pid); err == nil && (p.parent == parent || p.parent == os.Getpid()) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have died, or may not be ours to signal
	}
}

// descendants returns the living processes below a process, with the parent of each.
func descendants(root int) map[int]int {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil // children of this process are killed without this
	}
	children := map[int][]process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue // not a process
		}
		if p, err := readProcess(pid); err == nil {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	below := map[int]int{}
	for level := []int{root}; len(level) > 0; {
		var next []int
		for _, parent := range level {
			for _, p := range children[parent] {
				if p.state != 'Z' {
					below[p.pid] = parent
				}
				next = append(next, p.pid)
			}
		}
		level = next
	}
	return below
}

// process is what matters here of /proc/PID/stat.
type process struct {
	pid, parent int
	state       byte
}

var errStat = errors.New("malformed stat file of a process")

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(string(text))
}

// parseStat reads "PID (NAME) STATE PARENT ...\n". The name may hold anything, brackets and newlines too.
func parseStat(text string) (process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open || !strings.HasSuffix(text, "\n") {
		return process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(text[:open]))
	rest := strings.Fields(text[end+1:])
	if errPID != nil || len(rest) < 2 || len(rest[0]) != 1 {
		return process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	parent, err := strconv.Atoi(rest[1])
	if err != nil {
		return process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	return process{pid, parent, rest[0][0]}, nil
}
