package agent

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"golang.org/x/sys/unix"
)

// dyingTime bounds, in milliseconds, the wait for a process that is dying to be dead. Only one that is stuck takes
// so long.
const exitTimeoutMillis = 1000

// What an epoll event tells, in its Pad; its Fd is the rank.
const (
	processExited = iota
	connectionClosed
)

// exitWatcher tells in which order ranks die, although one may die of the death of another within microseconds.
//
// Waiting for children does not keep the order, and even the pidfds become readable in the wrong one: a process
// closes its files first and is dead a little later, and another that waited for one of these files may overtake
// it. So the ends of the PMI connections are watched too. A dying process gives up its descriptors from the highest
// to the lowest, and ranks inherit PMI under a higher number ([rankPMI]) than descriptors they open, so nobody can
// notice their death before that.
type exitWatcher struct {
	epoll int
	ranks []watchedProcess
	dying []int // ranks that are dying, in order
	queue []int // ranks that have died, in order
}

// watchedProcess is what is watched of a rank.
type watchedProcess struct {
	pid        int
	pidfd      int
	pmi        int         // a duplicate: the server closes its own
	finalized  atomic.Bool // the end of its connection does not mean death
	aliveAtEnd atomic.Bool // it lived when all were told to end
	queued     bool        // it has been in the queue
	dyingSince time.Time   // when it was seen to begin to die; zero: not yet
}

// newExitWatcher prepares to watch that many ranks, which are numbers below n here.
func newExitWatcher(n int) (*exitWatcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	return &exitWatcher{epoll: epoll, ranks: make([]watchedProcess, n)}, nil
}

// finalized takes note that a rank may end its connection from now on. Any goroutine may call it.
func (d *exitWatcher) finalized(rank int) { d.ranks[rank].finalized.Store(true) }

// markAlive takes note that all ranks are about to be told to end. What became of one that dies already is its own doing, however
// late that is heard of; what becomes of the others need not be.
func (d *exitWatcher) markAlive() {
	for i := range d.ranks {
		if m := &d.ranks[i]; m.pid != 0 {
			m.aliveAtEnd.Store(!m.isDying())
		}
	}
}

// add begins to watch a rank that has just been started. pmi stays the caller's.
func (d *exitWatcher) add(rank, pid, pidfd int, pmi *os.File) error {
	m := &d.ranks[rank]
	m.pid, m.pidfd = pid, pidfd
	conn, err := pmi.SyscallConn()
	if err == nil {
		controlErr := conn.Control(func(fd uintptr) { m.pmi, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(controlErr, err)
	}
	if err == nil {
		err = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, m.pmi,
			&unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(rank), Pad: connectionClosed})
	}
	if err == nil {
		err = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, pidfd,
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(rank), Pad: processExited})
	}
	if err != nil {
		return fmt.Errorf("watch the process: %w", err)
	}
	return nil
}

// next waits for the next rank to die, of all that were added before the first call, and tells when it began to.
func (d *exitWatcher) next() (rank int, when time.Time, err error) {
	for len(d.queue) == 0 {
		if err := d.wait(); err != nil {
			return 0, when, fmt.Errorf("watch processes: %w", err)
		}
	}
	rank = d.queue[0]
	d.queue = d.queue[1:]
	return rank, d.ranks[rank].dyingSince, nil
}

// wait waits until something happens to a rank, and takes note of it.
func (d *exitWatcher) wait() error {
	events := make([]unix.EpollEvent, 64)
	n, err := unix.EpollWait(d.epoll, events, -1)
	if err != nil && err != unix.EINTR {
		return err
	}
	now := time.Now()
	for _, e := range events[:max(n, 0)] {
		rank := int(e.Fd)
		m := &d.ranks[rank]
		if e.Pad == connectionClosed && (m.finalized.Load() || !m.isDying()) {
			continue // it has closed its connection and goes on
		}
		if m.dyingSince.IsZero() {
			m.dyingSince = now
		}
		if e.Pad == processExited {
			d.enqueueInOrder(rank)
		} else {
			d.dying = append(d.dying, rank)
		}
	}
	return nil
}

// enqueueInOrder queues a rank, behind those that began to die before it.
func (d *exitWatcher) enqueueInOrder(rank int) {
	for len(d.dying) > 0 && !d.ranks[rank].queued {
		first := d.dying[0]
		d.dying = d.dying[1:]
		if first == rank || d.ranks[first].hasExited(exitTimeoutMillis) {
			d.enqueue(first)
		}
	}
	d.enqueue(rank)
}

func (d *exitWatcher) enqueue(rank int) {
	if m := &d.ranks[rank]; !m.queued {
		m.queued = true
		d.queue = append(d.queue, rank)
		unix.Close(m.pmi)
	}
}

// isDying tells whether a rank is dead or on the way to it. With no /proc one that is on the way counts as one that lives.
func (m *watchedProcess) isDying() bool {
	p, err := proctree.ReadProcess(m.pid)
	return m.hasExited(0) || err == nil && p.Exiting
}

// hasExited tells whether a rank is dead, and waits for it so many milliseconds.
func (m *watchedProcess) hasExited(patience int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}}, patience)
	return err == nil && n == 1
}
