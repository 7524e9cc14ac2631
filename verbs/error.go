package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// The kinds of errors, for [errors.Is]. Every error of this package is an [*Error] of one of these kinds, a [*CompletionError],
// or an error of a context.Context.
var (
	ErrNotSupported = newKind("not supported", errors.ErrUnsupported) // by the device, its driver or this build
	ErrNoDevice     = newKind("no such device", fs.ErrNotExist)
	ErrPermission   = newKind("permission denied", fs.ErrPermission)
	ErrMemlock      = errors.New("the limit on locked memory is too low")
	ErrLimit        = errors.New("out of memory or of resources of the device")
	ErrInvalid      = newKind("invalid argument", fs.ErrInvalid)
	ErrState        = errors.New("not allowed in the state of the queue pair") // posting or modifying
	ErrFull         = errors.New("the queue is full")                          // nothing was queued; poll, then try again
	ErrBusy         = errors.New("in use")                                     // an open object depends on the one to close
	ErrUnreachable  = errors.New("the peer's address cannot be reached")       // no route, or no neighbour replied
	ErrOverrun      = errors.New("the completion queue overran")               // completions were lost; do not use it any more
	ErrDeviceLost   = errors.New("the device was lost")                        // requests that were posted may never complete
	ErrClosed       = newKind("already closed", os.ErrClosed)                  // also: closed while the call waited
)

// errorKind is a kind of errors that is also an error of the standard library.
type errorKind struct {
	text string
	std  error
}

func newKind(text string, std error) error { return errorKind{text, std} }

func (k errorKind) Error() string { return k.text }
func (k errorKind) Unwrap() error { return k.std }

// Error is a call that failed.
type Error struct {
	Op     string // the operation, such as "create a queue pair"
	Device string // name of the device
	QPN    uint32 // number of the queue pair, or 0
	ID     uint64 // of the request; only with Post
	Post   bool   // the call was to post a request
	Kind   error  // one of the kinds above, or nil for another error of the operating system
	Detail string // what is wrong, and the remedy; may be empty
	Err    error  // the provider's error, or nil; it wraps the [syscall.Errno]. With ErrDeviceLost perhaps that of an earlier call

	// Dropped is the number of requests, the last that were posted before, that the device has refused later: they do not
	// complete. Only posts and [QP.Ring] through libibverbs set it, when a queue pair or the device has failed.
	Dropped int
}

// Error returns the operation, the object and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("verbs: " + e.Op)
	if e.Device != "" {
		b.WriteString(" on " + e.Device)
	}
	if e.QPN != 0 {
		fmt.Fprintf(&b, ", queue pair %#x", e.QPN)
	}
	if e.Post {
		fmt.Fprintf(&b, ", request %d", e.ID)
	}
	if e.Kind != nil && (e.Kind != ErrNoDevice || e.Device != "") { // without a name, Detail is more precise
		b.WriteString(": " + e.Kind.Error())
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the kind and the provider's error.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// kinds is the kinds of errors of providers. The first entry that matches is used.
var kinds = []struct{ err, kind error }{
	{os.ErrClosed, ErrClosed},
	{errors.ErrUnsupported, ErrNotSupported},
	{syscall.EPROTONOSUPPORT, ErrNotSupported},
	{syscall.ENOTTY, ErrNotSupported},
	{syscall.EIO, ErrDeviceLost},
	{syscall.ENETUNREACH, ErrUnreachable},
	{syscall.EHOSTUNREACH, ErrUnreachable},
	{syscall.EADDRNOTAVAIL, ErrUnreachable},
	{syscall.ETIMEDOUT, ErrUnreachable},
	{fs.ErrPermission, ErrPermission},
	{fs.ErrNotExist, ErrNoDevice},
	{syscall.ENODEV, ErrNoDevice},
	{syscall.ENXIO, ErrNoDevice},
	{syscall.EBUSY, ErrBusy},
	{syscall.ENOMEM, ErrLimit},
	{syscall.ENOSPC, ErrLimit},
	{syscall.EAGAIN, ErrLimit},
	{syscall.EINVAL, ErrInvalid},
	{syscall.EFAULT, ErrInvalid},
	{syscall.EBADF, ErrInvalid},
}

// kindOf returns the kind of an error of a provider, or nil.
func kindOf(err error) error {
	var m *uverbs.MemlockError
	if errors.As(err, &m) {
		return ErrMemlock
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return nil
}

// fail wraps an error of a provider. It returns nil for nil.
func (c *Context) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Device: c.name, Kind: kindOf(err), Err: err, Dropped: dropped(err)}
}

// dropped returns the number of requests that are lost with an error of a provider.
func dropped(err error) int {
	var d interface{ Dropped() int }
	if errors.As(err, &d) {
		return d.Dropped()
	}
	return 0
}

// refuse returns an error that this package has detected.
func (c *Context) refuse(op string, kind error, detail string, args ...any) error {
	return &Error{Op: op, Device: c.name, Kind: kind, Detail: fmt.Sprintf(detail, args...), Err: c.causeOf(kind)}
}
