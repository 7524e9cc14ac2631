package rdma

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a descriptor that is readable when a rail has something to tell, or when it is time for something.
type sleeper struct {
	bed int // epoll: the rails' channels, and the clock
	evs [maxRails + 1]unix.EpollEvent

	mu    sync.Mutex // guards the rest
	clock int        // timerfd, -1 once it is closed
	at    time.Duration
	rung  bool // wake has set it, and that was not taken yet
}

func newSleeper(rails []*rail) (s *sleeper, err error) {
	s = &sleeper{bed: -1, clock: -1, at: never}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fabric/rdma: make a descriptor to sleep on: %w", err), s.close())
		}
	}()
	if s.bed, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if s.clock, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err := s.watch(s.clock, -1); err != nil {
		return nil, err
	}
	for _, r := range rails {
		if err := s.watch(r.channel.FD(), int32(r.index)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sleeper) watch(fd int, what int32) error {
	return unix.EpollCtl(s.bed, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: what})
}

// set has the clock ring at a time.
func (s *sleeper) set(now, at time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.at || s.rung {
		return nil
	}
	s.at = at
	var t unix.ItimerSpec
	if at != never {
		t.Value = unix.NsecToTimespec(int64(max(at-now, 1)))
	}
	if err := unix.TimerfdSettime(s.clock, 0, &t, nil); err != nil {
		return fmt.Errorf("fabric/rdma: set the clock: %w", err)
	}
	return nil
}

// wake has the clock ring now. Any goroutine may call it; whoever sleeps looks what there is to do.
func (s *sleeper) wake() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock < 0 || s.rung {
		return nil
	}
	s.at, s.rung = -1, true
	t := unix.ItimerSpec{Value: unix.Timespec{Nsec: 1}}
	if err := unix.TimerfdSettime(s.clock, 0, &t, nil); err != nil {
		return fmt.Errorf("fabric/rdma: set the clock: %w", err)
	}
	return nil
}

// woken takes what made the descriptor readable.
func (s *sleeper) woken(d *domain) error {
	n, err := unix.EpollWait(s.bed, s.evs[:], 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	for _, ev := range s.evs[:max(n, 0)] {
		if ev.Fd < 0 {
			if err := s.silence(); err != nil {
				return err
			}
			continue
		}
		r := d.rails[ev.Fd]
		for {
			cq, err := r.channel.Next()
			if err != nil {
				return fmt.Errorf("fabric/rdma: %w", err)
			}
			if cq == nil {
				break
			}
			if cq == r.got {
				r.alert = false
			} else {
				r.notified = false
			}
		}
	}
	return nil
}

// silence takes what the clock has rung for, which is seen to from here on.
func (s *sleeper) silence() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rings [8]byte
	switch _, err := unix.Read(s.clock, rings[:]); {
	case errors.Is(err, unix.EAGAIN): // it was set meanwhile, and rings presently
	case err != nil:
		return fmt.Errorf("fabric/rdma: read the clock: %w", err)
	default:
		s.at, s.rung = -1, false // it is to be set whatever comes
	}
	return nil
}

func (s *sleeper) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs [2]error
	for i, fd := range []int{s.bed, s.clock} {
		if fd >= 0 {
			errs[i] = unix.Close(fd)
		}
	}
	s.bed, s.clock = -1, -1
	return errors.Join(errs[:]...)
}
