package link

import (
	"errors"
	"fmt"
)

// Errors that an [Error] may wrap. Test for them with errors.Is.
var (
	// ErrNotSupported reports that the kernel has no rxe driver, or that this is not Linux.
	ErrNotSupported = errors.New("Soft-RoCE is not supported")
	// ErrPermission reports that the process lacks CAP_NET_ADMIN in the initial user namespace: in practice, root outside
	// containers.
	ErrPermission = errors.New("permission denied")
	// ErrNoNetdev reports that this network namespace has no network device with this name.
	ErrNoNetdev = errors.New("no such network device")
	// ErrNameInUse reports that an RDMA device with this name exists, of any driver.
	ErrNameInUse = errors.New("name in use by another RDMA device")
	// ErrNetdevInUse reports that the network device already has an rxe link.
	ErrNetdevInUse = errors.New("network device in use by another Soft-RoCE link")
	// ErrNoLink reports that there is no rxe link with this name.
	ErrNoLink = errors.New("no such Soft-RoCE link")
	// ErrBadName reports a name that is empty, too long, or has a character that device names must not have.
	ErrBadName = errors.New("invalid device name")
)

// Error is the type of all errors of this package.
type Error struct {
	// Op is "add", "delete" or "list".
	Op string
	// Name is the link, and Netdev the network device. Either may be empty.
	Name, Netdev string
	// Err is the reason. It wraps one of the errors above if the reason is one of them, and the kernel's error number if
	// there is one.
	Err error
	// Remedy is a sentence or a command that helps; empty if none is known.
	Remedy string
}

// Error returns the operation, the reason and the remedy.
func (e *Error) Error() string {
	s := e.Op + " Soft-RoCE link"
	if e.Name != "" {
		s += " " + e.Name
	}
	if e.Netdev != "" {
		s += " on " + e.Netdev
	}
	s += ": " + e.Err.Error()
	if e.Remedy != "" {
		s += "\n" + e.Remedy
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Link is an rxe device.
type Link struct {
	// Name is the RDMA device's name.
	Name string
	// Netdev is the network device that it sends and receives on.
	Netdev string
	// State is the state of its port as the kernel reports it: "ACTIVE" if it can be used, "DOWN" if the network device is
	// down.
	State string
}

// The lengths of the longest names that the kernel accepts. Its buffers have 64 bytes for RDMA devices and 16 for network
// devices, including the terminating zero.
const (
	maxName   = 63
	maxNetdev = 15
)

// checkName returns an error for names that the kernel would truncate, or that sysfs cannot use as file names.
func checkName(s string, longest int) error {
	switch {
	case s == "" || s == "." || s == "..":
		return fmt.Errorf("%w: %q", ErrBadName, s)
	case len(s) > longest:
		return fmt.Errorf("%w: %q has more than %d characters", ErrBadName, s, longest)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c == '/' || c == '%' || c >= 0x7f {
			return fmt.Errorf("%w: %q has the character %q", ErrBadName, s, c)
		}
	}
	return nil
}
