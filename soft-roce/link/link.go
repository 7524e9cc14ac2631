package link

import (
	"errors"
	"fmt"
)

// What an [Error] may wrap. Ask with errors.Is.
var (
	// ErrNotSupported: the kernel has no rxe driver, or this is not Linux.
	ErrNotSupported = errors.New("no Soft-RoCE here")
	// ErrPermission: it takes CAP_NET_ADMIN in the first user namespace; in practice, root outside containers.
	ErrPermission = errors.New("permission denied")
	// ErrNoNetdev: there is no network device of that name in this network namespace.
	ErrNoNetdev = errors.New("no such network device")
	// ErrNameInUse: an RDMA device of that name exists, whatever it is.
	ErrNameInUse = errors.New("name in use by another RDMA device")
	// ErrNetdevInUse: the network device has an rxe link.
	ErrNetdevInUse = errors.New("network device in use by another Soft-RoCE link")
	// ErrNoLink: there is no rxe link of that name.
	ErrNoLink = errors.New("no such Soft-RoCE link")
	// ErrBadName: a name is empty, too long, or has a character that no device name may have.
	ErrBadName = errors.New("not a device name")
)

// Error is what all functions of this package fail with.
type Error struct {
	// Op is "add", "delete" or "list".
	Op string
	// Name is the link that it is about, Netdev the network device. Either may be empty.
	Name, Netdev string
	// Err is the reason. It wraps one of the errors above where the reason is among them, and the kernel's
	// error number where there is one.
	Err error
	// Remedy is what to do about it, as a sentence or command; empty if that is not known.
	Remedy string
}

// Error says what was tried, why it failed and what would help.
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
	// State is that of its port, in the kernel's word: "ACTIVE" when it can be used, "DOWN" when the network device
	// is down.
	State string
}

// maxName is the length of the longest name that the kernel accepts: its buffers have 64 bytes for RDMA devices and 16
// for network devices, with the zero at the end.
const (
	maxName   = 63
	maxNetdev = 15
)

// checkName refuses names that the kernel would cut short or that are no file names, which sysfs makes of them.
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
