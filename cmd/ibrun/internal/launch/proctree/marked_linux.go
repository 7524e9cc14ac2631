package proctree

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Root is a process that is not a child of this process, with everything below it.
type Root struct {
	PID    int
	PIDFD  int    // refers to the process even if it has died and its pid is used again
	Mark   string // a variable that all processes below it have in their environment, and no others: "NAME=VALUE"
	Cgroup string // the directory of the control group of the processes below it; empty: none
}

// Kill kills the process and everything below it, also processes whose parents have died. It is the last resort when the
// subreaper of these processes has died. It returns the pids of those that are still alive after KillTimeout.
func (r *Root) Kill() (stuck []int) {
	var group *Cgroup
	if r.Cgroup != "" {
		group = &Cgroup{Dir: r.Cgroup}
	}
	deadline := time.Now().Add(KillTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left := marked(r.Mark)
		if !r.exited() {
			left = append(left, DescendantPIDs(r.PID)...)
			_ = unix.PidfdSendSignal(r.PIDFD, unix.SIGKILL, nil, 0) // it may have exited
			left = append(left, r.PID)
		}
		group.Kill()
		for _, pid := range left {
			if pid != r.PID {
				_ = unix.Kill(pid, unix.SIGKILL) // as above
			}
		}
		if len(left) == 0 {
			_ = group.Remove() // another process may have removed it
			return nil
		}
		if time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

func (r *Root) exited() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(r.PIDFD), Events: unix.POLLIN}}, 0)
	return err != nil || n == 1
}

// marked returns the living processes of this user that have a variable in their environment.
func marked(variable string) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			continue // it has exited, or is another user's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
