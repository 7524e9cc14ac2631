package sleep

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/verbs"
)

// waker is an epoll file descriptor that becomes readable when a rail has events, when a timer
// expires, or when another goroutine calls wake.
type waker struct {
	epfd int // epoll file descriptor that watches the completion channels of the rails and timerfd
	evs  []unix.EpollEvent

	mu       sync.Mutex // guards the following fields
	timerfd  int
	opened   bool          // the descriptors are open, or being opened
	timerAt  time.Duration // when the timer expires; -1 if setTimer must set it in any case
	wakeSent bool          // wake has set the timer, and drain has not consumed the expiration yet
}

// open opens the descriptors. If it fails, it leaves none open.
func (w *waker) open(rails []Rail) (err error) {
	w.opened, w.epfd, w.timerfd, w.timerAt = true, -1, -1, liveness.Never
	w.evs = make([]unix.EpollEvent, len(rails)+1)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fabric/rdma: create the file descriptor for sleeping: %w", err), w.close())
		}
	}()
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.timerfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	if err := w.add(w.timerfd, -1); err != nil {
		return err
	}
	for i, r := range rails {
		if err := w.add(r.Channel.FD(), int32(i)); err != nil {
			return err
		}
	}
	return nil
}

func (w *waker) fd() int { return w.epfd }

// add makes the waker watch fd. id is the number of a rail, or -1 for the timer.
func (w *waker) add(fd int, id int32) error {
	return unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id})
}

// ignore makes the waker watch a channel no more.
func (w *waker) ignore(ch *verbs.Channel) {
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, ch.FD(), nil) // fails if the device has closed it
}

// setTimer sets when the timer expires. It does nothing if wake was called since the last drain.
func (w *waker) setTimer(now, at time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at == w.timerAt || w.wakeSent {
		return nil
	}
	w.timerAt = at
	var t unix.ItimerSpec
	if at != liveness.Never {
		t.Value = unix.NsecToTimespec(int64(max(at-now, 1)))
	}
	if err := unix.TimerfdSettime(w.timerfd, 0, &t, nil); err != nil {
		return fmt.Errorf("fabric/rdma: set the timer: %w", err)
	}
	return nil
}

// wake wakes the sleeping caller immediately, so that it checks for work. Any goroutine may call
// it.
func (w *waker) wake() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.opened || w.wakeSent {
		return nil
	}
	w.timerAt, w.wakeSent = -1, true
	t := unix.ItimerSpec{Value: unix.Timespec{Nsec: 1}}
	if err := unix.TimerfdSettime(w.timerfd, 0, &t, nil); err != nil {
		return fmt.Errorf("fabric/rdma: set the timer: %w", err)
	}
	return nil
}

// drain consumes the expiration of the timer, and returns the rails whose channels have events, as
// bits.
func (w *waker) drain() (rails uint32, err error) {
	n, err := unix.EpollWait(w.epfd, w.evs, 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return 0, fmt.Errorf("fabric/rdma: %w", err)
	}
	for _, ev := range w.evs[:max(n, 0)] {
		if ev.Fd >= 0 {
			rails |= 1 << ev.Fd
		} else if err := w.readTimer(); err != nil {
			return 0, err
		}
	}
	return rails, nil
}

// readTimer consumes an expiration of the timer.
func (w *waker) readTimer() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rings [8]byte
	switch _, err := unix.Read(w.timerfd, rings[:]); {
	case errors.Is(err, unix.EAGAIN): // the timer was set again meanwhile, and is going to expire
	case err != nil:
		return fmt.Errorf("fabric/rdma: read the timer: %w", err)
	default:
		w.timerAt, w.wakeSent = -1, false
	}
	return nil
}

func (w *waker) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.opened {
		return nil
	}
	var errs [2]error
	for i, fd := range []int{w.epfd, w.timerfd} {
		if fd >= 0 {
			errs[i] = unix.Close(fd)
		}
	}
	w.opened, w.epfd, w.timerfd = false, -1, -1
	return errors.Join(errs[:]...)
}
