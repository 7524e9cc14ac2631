package uverbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrClosed is what calls on a closed context return.
var ErrClosed = fmt.Errorf("device %w", os.ErrClosed)

// Error is a call that failed.
type Error struct {
	Call   string // the kernel's name of a command, such as "CREATE_QP", or a system call, such as "open"
	Device string // the device's file
	Err    error  // a [syscall.Errno], ErrClosed, a [*MemlockError], or an error that wraps errors.ErrUnsupported
	Hint   string // what is known about this error, or empty
}

// Error is one line, the call and the file first.
func (e *Error) Error() string {
	s := e.Call + " on " + e.Device + ": " + e.Err.Error()
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// MemlockError says that memory cannot be registered because it would have to be locked, and the limit on that is too low. It
// unwraps to ENOMEM.
type MemlockError struct {
	Limit  uint64 // RLIMIT_MEMLOCK, bytes
	Pinned uint64 // what this process has registered already, bytes
	Need   uint64 // what this registration would add, bytes
}

// Error says the limit, what is needed, and how to raise it.
func (e *MemlockError) Error() string {
	return fmt.Sprintf("registered memory is locked, and RLIMIT_MEMLOCK is %d bytes: %d are in use and %d more are needed; "+
		"raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, memlock in /etc/security/limits.conf) "+
		"or give the program CAP_IPC_LOCK", e.Limit, e.Pinned, e.Need)
}

// Unwrap returns ENOMEM.
func (e *MemlockError) Unwrap() error { return syscall.ENOMEM }

// fail wraps the error of a call with what is known about it.
func (c *Context) fail(call string, err error) error {
	e := &Error{Call: call, Device: c.path(), Err: err}
	for _, h := range hints {
		if (h.call == "" || h.call == call) && errors.Is(err, h.errno) {
			e.Hint = h.text
			break
		}
	}
	return e
}

// hints say what an errno means here, where its own text misleads. The first that fits is taken.
var hints = []struct {
	call  string // "" is any
	errno syscall.Errno
	text  string
}{
	{"open", syscall.ENOENT, "no such file; is the module ib_uverbs loaded, and does this container have /dev/infiniband?"},
	{"open", syscall.EACCES, "the file's mode does not let this user open it; udev rules of rdma-core make it 0666"},
	{"open", syscall.EPERM, "the device is not among those this container may use, or belongs to another network namespace"},
	{"", syscall.EACCES, "the kernel takes commands only with the credentials that opened the device; " +
		"after setuid or capset each thread has its own"},
	{"", syscall.EIO, "the device was removed"},
}
