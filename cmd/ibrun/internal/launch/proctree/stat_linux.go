package proctree

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process contains the fields of /proc/PID/stat that the launcher uses.
type Process struct {
	PID, Parent int
	Zombie      bool // exited, but not reaped by its parent
	Exiting     bool // zombie, or exiting
	State       byte // R, S, D, T, t, Z and others, as proc(5) lists them
	CPU         time.Duration
}

// Stopped reports whether a signal or a debugger has stopped the process.
func (p Process) Stopped() bool { return p.State == 'T' || p.State == 't' }

// tick is the unit in which the kernel reports processor time.
const tick = 10 * time.Millisecond

// flagExiting is the kernel's PF_EXITING in the flags of a process.
const flagExiting = 0x4

var errStat = errors.New("malformed stat file of a process")

// ReadProcess reads /proc/PID/stat.
func ReadProcess(pid int) (Process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(string(text))
}

// parseStat parses "PID (NAME) STATE PARENT GROUP SESSION TERMINAL TERMINAL-GROUP FLAGS ...\n". The name may contain any
// character, brackets and newlines too. The flags are followed by four counters of page faults, then the ticks spent in user
// mode and in the kernel.
func parseStat(text string) (Process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open || !strings.HasSuffix(text, "\n") {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 7 || len(fields[0]) != 1 {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, errParent := strconv.Atoi(fields[1])
	flags, errFlags := strconv.ParseUint(fields[6], 10, 64)
	if errPID != nil || errParent != nil || errFlags != nil {
		return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
	}
	p := Process{PID: pid, Parent: parent, Zombie: strings.Contains("ZX", fields[0]), State: fields[0][0]}
	p.Exiting = p.Zombie || flags&flagExiting != 0
	for _, ticks := range fields[min(len(fields), 11):min(len(fields), 13)] {
		n, err := strconv.ParseInt(ticks, 10, 48)
		if err != nil || n < 0 {
			return Process{}, fmt.Errorf("%w: %.80q", errStat, text)
		}
		p.CPU += time.Duration(n) * tick
	}
	return p, nil
}

// IsDescendant reports whether a process is below another one.
func IsDescendant(pid, ancestor int) bool {
	for range 16 { // a limit for the depth of the search
		p, err := ReadProcess(pid)
		if err != nil || p.Parent <= 1 {
			return false
		}
		if p.Parent == ancestor {
			return true
		}
		pid = p.Parent
	}
	return false
}
