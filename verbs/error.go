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

// The kinds of errors, for [errors.Is]. Every error of this package that is not a [*CompletionError] or of a context.Context is
// an [*Error] of one of these kinds.
var (
	ErrNotSupported = fmt.Errorf("not supported: %w", errors.ErrUnsupported) // the device, its driver or this build cannot do it
	ErrNoDevice     = fmt.Errorf("no such device: %w", fs.ErrNotExist)
	ErrPermission   = fmt.Errorf("not allowed: %w", fs.ErrPermission)
	ErrMemlock      = errors.New("the limit on locked memory is too low")
	ErrLimit        = errors.New("out of memory, or of what the device has")
	ErrInvalid      = fmt.Errorf("invalid: %w", fs.ErrInvalid)             // an argument that cannot be right
	ErrState        = errors.New("the state of the queue pair forbids it") // posting or modifying
	ErrFull         = errors.New("the queue is full")                      // nothing was queued; poll, then try again
	ErrBusy         = errors.New("in use")                                 // something else depends on what was to be closed
	ErrUnreachable  = errors.New("the peer's address cannot be reached")   // no route, or no neighbour answered
	ErrOverrun      = errors.New("the completion queue overran")           // completions were lost; it is of no more use
	ErrDeviceLost   = errors.New("the device is gone")                     // what was posted may never complete
	ErrClosed       = fmt.Errorf("used after its Close: %w", os.ErrClosed) // or closed while the call waited
)

// Error is a call that failed.
type Error struct {
	Op     string // what was to be done, such as "create a queue pair"
	Device string // name of the device
	QPN    uint32 // number of the queue pair, where there is one
	ID     uint64 // of the request that was to be posted; only with Post
	Post   bool   // the call was to post a request
	Kind   error  // one of the kinds above, or nil for an error of the operating system that fits none
	Detail string // what is wrong and what would be needed, may be empty
	Err    error  // what the provider said, or nil; the [syscall.Errno] is in it

	// Dropped is how many of the requests that were posted before, the last of them, the device has refused after all: they
	// do not complete. Posting and [QP.Ring] through libibverbs say so, when a queue pair or the device has failed.
	Dropped int
}

// Error says what was to be done, to what, and what was wrong.
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
	if e.Kind != nil {
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

// Unwrap returns the kind and what the provider said.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// kinds says which kind an error of a provider is. The first that fits is taken.
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
}

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

// fail wraps what a provider said. It is nil for nil.
func (c *Context) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Device: c.name, Kind: kindOf(err), Err: err, Dropped: dropped(err)}
}

// dropped is how many requests are lost with an error of a provider.
func dropped(err error) int {
	var d interface{ Dropped() int }
	if errors.As(err, &d) {
		return d.Dropped()
	}
	return 0
}

// refuse is an error of ours.
func (c *Context) refuse(op string, kind error, detail string, args ...any) error {
	return &Error{Op: op, Device: c.name, Kind: kind, Detail: fmt.Sprintf(detail, args...)}
}
