package console

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
)

// foregroundCheck is how often a job in the background checks whether it is in the foreground by now.
const foregroundCheck = 100 * time.Millisecond

// inBackground reports whether f is the terminal of this process, and another job of the shell is in its foreground.
func inBackground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp() // an error means that it is not the terminal of this process
}

// RankInput returns the standard input for rank 0: that of ibrun, so that what the rank does not read stays unread. The kernel
// stops a job in the background that reads its terminal, but it does not know that the ranks, which are in another session,
// belong to this job. So for a job that starts in the background, RankInput returns a pipe, to which ibrun copies what is typed
// while the job is in the foreground. The caller closes the pipe by calling started when the rank's parent has inherited it.
func (s Streams) RankInput() (in *os.File, started func(), err error) {
	if !inBackground(s.In) {
		return s.In, func() {}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("open pipe for standard input: %w", err)
	}
	go s.copyInForeground(w)
	return r, func() { r.Close() }, nil
}

// copyInForeground copies what is typed to a pipe until the end of the input. It reads only in the foreground, and only when the
// pipe is empty: what the ranks do not read stays in the terminal.
func (s Streams) copyInForeground(to *os.File) {
	defer to.Close()
	buf := make([]byte, 4096)
	for {
		unread, err := unix.IoctlGetInt(int(to.Fd()), unix.TIOCINQ)
		if err != nil {
			return
		}
		if unread > 0 {
			time.Sleep(foregroundCheck)
			continue
		}
		n, err := s.readInForeground(buf, nil)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil || n == 0 {
			return // the end of the input, or the terminal was closed
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return // the pipe has no reader any more
		}
	}
}

// InputIsTerminal reports whether standard input is a terminal.
func (s Streams) InputIsTerminal() bool { return IsTerminal(s.In) }

// ReadInput reads standard input and calls pass with each part, of at most that many bytes, and with nil at the end. pass returns
// when the next part may be read. It reads a terminal only while this process is in the foreground. It returns after the end, and
// when stop is closed.
func (s Streams) ReadInput(most int, stop <-chan struct{}, pass func([]byte)) {
	for {
		buf := make([]byte, most)
		n, err := s.readInForeground(buf, stop)
		switch {
		case errors.Is(err, errStopped):
			return
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil || n <= 0:
			pass(nil)
			return
		default:
			pass(buf[:n])
		}
	}
}

// errStopped is returned by readInForeground when stop is closed.
var errStopped = errors.New("no more input is wanted")

// readInForeground reads standard input. It returns EAGAIN if there is nothing to read for a short time, or if standard input is
// a terminal and this process is in the background. It reads nothing after stop was closed.
func (s Streams) readInForeground(buf []byte, stop <-chan struct{}) (int, error) {
	if inBackground(s.In) {
		select {
		case <-stop:
			return 0, errStopped
		case <-time.After(foregroundCheck):
			return 0, unix.EAGAIN
		}
	}
	fds := []unix.PollFd{{Fd: int32(s.In.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(foregroundCheck/time.Millisecond))
	select {
	case <-stop:
		return 0, errStopped
	default:
	}
	if err == nil && (n == 0 || inBackground(s.In)) {
		err = unix.EAGAIN
	}
	if err != nil {
		return 0, err
	}
	return unix.Read(int(s.In.Fd()), buf)
}

// AwaitBackgroundRead blocks until one of some processes reads the terminal of this process while this process is in the
// background, and reports true. It reports false as soon as this process is in the foreground, or has no terminal as standard
// input. The kernel stops a job in such a case, but not for the ranks, which are in another session.
//
// It looks which system call the threads are in (/proc/PID/task/TID/syscall). A thread that was stopped in a read does not count
// until it is continued. Otherwise the job would be stopped before it was continued, and the late SIGCONT would let the ranks
// read what the user types then.
//
// AwaitBackgroundRead does not recognize a process that waits with poll and reads only when there is input, and it recognizes
// nothing where the kernel hides that file.
func (s Streams) AwaitBackgroundRead(pids func() []int) bool {
	var terminal unix.Stat_t
	if unix.Fstat(int(s.In.Fd()), &terminal) != nil {
		return false
	}
	for inBackground(s.In) {
		for _, pid := range pids() {
			if reads(pid, terminal.Rdev) {
				return true
			}
		}
		time.Sleep(foregroundCheck)
	}
	return false
}

// reads reports whether a thread of a process that is not stopped is within a read of a device.
func reads(pid int, device uint64) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		// The state is read first: the call of a thread that was stopped is from before SIGCONT.
		state, err := proctree.ReadProcess(tid)
		if err != nil || state.Stopped() {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
		var call, fd int // "NUMBER 0xARGUMENT ...", or "running"
		if n, _ := fmt.Sscanf(string(text), "%d 0x%x", &call, &fd); err != nil || n != 2 || call != unix.SYS_READ {
			continue
		}
		var file unix.Stat_t
		err = unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), &file)
		if err == nil && file.Mode&unix.S_IFMT == unix.S_IFCHR && file.Rdev == device {
			return true
		}
	}
	return false
}
