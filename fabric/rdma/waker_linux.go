package rdma

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
)

// waker wakes the caller of Poll: its epoll file descriptor becomes readable when a rail has events, when a timer expires, or
// when another goroutine calls wake.
type waker struct {
	epfd int // epoll file descriptor that watches the completion channels of the rails and timerfd
	evs  [cm.MaxRails + 1]unix.EpollEvent

	mu       sync.Mutex    // guards the following fields
	timerfd  int           // -1 once it is closed
	timerAt  time.Duration // when the timer expires; -1 if setTimer must set it in any case
	wakeSent bool          // wake has set the timer, and drain has not consumed the expiration yet
}

func newWaker(rails []*rail) (w *waker, err error) {
	w = &waker{epfd: -1, timerfd: -1, timerAt: liveness.Never}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fabric/rdma: create the file descriptor for sleeping: %w", err), w.close())
		}
	}()
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if w.timerfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err := w.add(w.timerfd, -1); err != nil {
		return nil, err
	}
	for _, r := range rails {
		if err := w.add(r.Channel.FD(), int32(r.Index)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// add makes the waker watch fd. id is the index of a rail, or -1 for the timer.
func (w *waker) add(fd int, id int32) error {
	return unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id})
}

// ignoreRail makes the waker watch a rail no more: the descriptors of a lost device are always readable.
func (w *waker) ignoreRail(r *rail) {
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, r.Channel.FD(), nil) // fails if it was removed already
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

// wake wakes the sleeping caller immediately, so that it checks for work. Any goroutine may call it.
func (w *waker) wake() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timerfd < 0 || w.wakeSent {
		return nil
	}
	w.timerAt, w.wakeSent = -1, true
	t := unix.ItimerSpec{Value: unix.Timespec{Nsec: 1}}
	if err := unix.TimerfdSettime(w.timerfd, 0, &t, nil); err != nil {
		return fmt.Errorf("fabric/rdma: set the timer: %w", err)
	}
	return nil
}

// drain consumes the events that made the file descriptor readable.
func (w *waker) drain(d *domain) error {
	n, err := unix.EpollWait(w.epfd, w.evs[:], 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	for _, ev := range w.evs[:max(n, 0)] {
		if ev.Fd < 0 {
			if err := w.readTimer(); err != nil {
				return err
			}
			continue
		}
		r := d.rails[ev.Fd]
		for {
			cq, err := r.Channel.Next()
			if err != nil {
				if err := d.railLost(r, err); err != nil {
					return err
				}
				break
			}
			if cq == nil {
				break
			}
			if cq == r.RecvCQ {
				r.recvArmed = false
			} else {
				r.sendArmed = false
			}
		}
	}
	return nil
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
	var errs [2]error
	for i, fd := range []int{w.epfd, w.timerfd} {
		if fd >= 0 {
			errs[i] = unix.Close(fd)
		}
	}
	w.epfd, w.timerfd = -1, -1
	return errors.Join(errs[:]...)
}
