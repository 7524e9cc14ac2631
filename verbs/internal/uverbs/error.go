package uverbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrClosed is the error of calls on a closed context.
var ErrClosed = fmt.Errorf("device %w", os.ErrClosed)

// Error is a call that failed.
type Error struct {
	Call   string // the kernel's name of a command, such as "CREATE_QP", or a system call, such as "open"
	Device string // the device's file
	Err    error  // a [syscall.Errno], ErrClosed, a [*MemlockError], or an error that wraps errors.ErrUnsupported
	Hint   string // the likely cause and the remedy, or empty
}

// Error returns one line: the call, the file, the error and the hint.
func (e *Error) Error() string {
	s := e.Call + " on " + e.Device + ": " + e.Err.Error()
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// MemlockError reports that memory cannot be registered because registered memory is locked, and the limit on locked memory is
// too low. It unwraps to ENOMEM.
type MemlockError struct {
	Limit  uint64 // RLIMIT_MEMLOCK, bytes
	Pinned uint64 // memory that this process has registered already, bytes
	Need   uint64 // memory that this registration would add, bytes
}

// Error returns the limit, the need, and how to raise the limit.
func (e *MemlockError) Error() string {
	return fmt.Sprintf("registered memory is locked, and RLIMIT_MEMLOCK is %d bytes: %d are in use and %d more are needed; "+
		"raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, memlock in /etc/security/limits.conf) "+
		"or give the program CAP_IPC_LOCK", e.Limit, e.Pinned, e.Need)
}

// Unwrap returns ENOMEM.
func (e *MemlockError) Unwrap() error { return syscall.ENOMEM }

// fail wraps the error of a call and adds a hint.
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

// hints explain what an errno means here if its own text misleads. The first that matches is used.
var hints = []struct {
	call  string // "" is any
	errno syscall.Errno
	text  string
}{
	{"open", syscall.ENOENT, "check that the module ib_uverbs is loaded, and that this container has /dev/infiniband"},
	{"open", syscall.EACCES, "this user may not open the file; the udev rules of rdma-core set its mode to 0666"},
	{"open", syscall.EPERM, "this container may not use the device, or the device belongs to another network namespace"},
	{"", syscall.EACCES, "the kernel accepts commands only from threads with the credentials that opened the device; " +
		"setuid and capset change those of one thread"},
	{"", syscall.EIO, "the device was removed"},
}
