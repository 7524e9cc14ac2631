package verbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// descriptor is one of the kernel's event descriptors in the runtime's poller.
//
// The poller is told of changes only, once each. No event is missed all the same: a reader tries before it is parked.
type descriptor struct {
	file *os.File // of a duplicate, since the provider closes its own
	conn syscall.RawConn
	take func([]byte) (int, error) // read(2), or what the provider has in its place
}

// newDescriptor takes a non-blocking descriptor that belongs to owner.
func newDescriptor(fd int, owner any) (*descriptor, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate an event descriptor: %w", err)
	}
	d := &descriptor{file: os.NewFile(uintptr(dup), "events")}
	d.take = func(b []byte) (int, error) { return unix.Read(dup, b) }
	if r, ok := owner.(ib.EventReader); ok {
		d.take = r.ReadEvents
	}
	if d.conn, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	return d, nil
}

// read waits for an event. It returns 0 without an error when it was interrupted.
func (d *descriptor) read(b []byte) (int, error) {
	var n int
	var took error
	err := d.conn.Read(func(uintptr) bool {
		n, took = d.take(b)
		return !errors.Is(took, unix.EAGAIN) && !errors.Is(took, unix.EINTR)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	if err == nil {
		err = took
	}
	return max(n, 0), err
}

// try returns 0 without an error when there is no event.
func (d *descriptor) try(b []byte) (int, error) {
	n, err := d.take(b)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}

// interrupt has read return until resume.
func (d *descriptor) interrupt() { d.file.SetReadDeadline(time.Unix(1, 0)) }

func (d *descriptor) resume() { d.file.SetReadDeadline(time.Time{}) }

// Close has read return an error.
func (d *descriptor) Close() error { return d.file.Close() }
