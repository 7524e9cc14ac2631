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

// eventFD is a file descriptor from which events of the kernel are read, in the runtime's poller.
//
// The poller is edge-triggered. No event is missed nevertheless, because a reader tries to read before it is parked.
type eventFD struct {
	file     *os.File // of a duplicate, because the provider closes its own
	conn     syscall.RawConn
	readFunc func([]byte) (int, error) // read(2), or ReadEvents of the provider
}

// newEventFD returns an eventFD for a non-blocking descriptor that belongs to owner.
func newEventFD(fd int, owner any) (*eventFD, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate an event descriptor: %w", err)
	}
	d := &eventFD{file: os.NewFile(uintptr(dup), "events")}
	d.readFunc = func(b []byte) (int, error) { return unix.Read(dup, b) }
	if r, ok := owner.(ib.EventReader); ok {
		d.readFunc = r.ReadEvents
	}
	if d.conn, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	return d, nil
}

// read blocks until an event. It returns 0 and no error if it was interrupted.
func (d *eventFD) read(b []byte) (int, error) {
	var n int
	var readErr error
	err := d.conn.Read(func(uintptr) bool {
		n, readErr = d.readFunc(b)
		return !errors.Is(readErr, unix.EAGAIN) && !errors.Is(readErr, unix.EINTR)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	if err == nil {
		err = readErr
	}
	return max(n, 0), err
}

// tryRead is read that does not block. It returns 0 and no error if there is no event.
func (d *eventFD) tryRead(b []byte) (int, error) {
	n, err := d.readFunc(b)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}

// interrupt makes read return until resume is called.
func (d *eventFD) interrupt() { d.file.SetReadDeadline(time.Unix(1, 0)) }

func (d *eventFD) resume() { d.file.SetReadDeadline(time.Time{}) }

// Close makes read return an error.
func (d *eventFD) Close() error { return d.file.Close() }
