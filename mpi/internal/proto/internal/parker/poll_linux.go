package parker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// poll sleeps on the transport's descriptor and on an eventfd, which other goroutines of this
// process write to wake it.
type poll struct{ eventfd int }

// New returns a Parker for a transport with a descriptor.
func New() (Parker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &poll{fd}, nil
}

func (p *poll) Park(fd int, limit time.Duration) error {
	var timeout *unix.Timespec
	if limit != 0 {
		t := unix.NsecToTimespec(int64(limit))
		timeout = &t
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(p.eventfd), Events: unix.POLLIN}}
	for {
		_, err := unix.Ppoll(fds, timeout, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("ppoll", err)
		}
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		if _, err := unix.Read(p.eventfd, count[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("read eventfd: %w", err)
		}
	}
	return nil
}

func (p *poll) Wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// The only possible failure is a counter that is full. Then the sleeping goroutine wakes as
	// well.
	_, _ = unix.Write(p.eventfd, one[:])
}

func (p *poll) Close() error { return os.NewSyscallError("close", unix.Close(p.eventfd)) }
