package agent

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
)

// exitTimeoutMillis limits the wait, in milliseconds, for an exiting process to exit. Only a process that is stuck in the
// kernel takes longer.
const exitTimeoutMillis = 1000

// The kinds of epoll events, in the Pad field. The Fd field is the index of the rank.
const (
	processExited = iota
	connectionClosed
)

// exitWatcher determines the order in which ranks exit, even if one exits within microseconds because another has exited.
//
// Waiting for children does not preserve the order, and even the pidfds become readable in the wrong order: an exiting process
// first closes its files and becomes dead a little later. Another process that waits for one of these files may react and exit
// earlier. So exitWatcher also watches the ends of the PMI connections. An exiting process closes its descriptors from the
// highest to the lowest, and the descriptor for PMI ([rankFDs]) is higher than those that a rank opens itself. So no other
// process can notice the exit of a rank before the agent does.
type exitWatcher struct {
	epoll int
	ranks []watchedProcess
	dying []int // ranks that are exiting, in order
	queue []int // ranks that have exited, in order, not yet returned by next
}

// watchedProcess is the process of one rank.
type watchedProcess struct {
	pid        int
	pidfd      int
	pmi        int         // a duplicate, since the PMI server closes its own descriptor
	finalized  atomic.Bool // it may close its connection without exiting
	aliveAtEnd atomic.Bool // it was alive when all ranks were ordered to end
	queued     bool        // it was added to the queue
	dyingSince time.Time   // when its exit was first noticed; zero: not yet
}

// newExitWatcher returns a watcher for n ranks. Ranks are identified by an index below n.
func newExitWatcher(n int) (*exitWatcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	return &exitWatcher{epoll: epoll, ranks: make([]watchedProcess, n)}, nil
}

// finalized records that a rank may close its connection from now on. Any goroutine may call it.
func (w *exitWatcher) finalized(rank int) { w.ranks[rank].finalized.Store(true) }

// markAlive must be called before all ranks are ordered to end. It marks the ranks that are alive. If a rank is already
// exiting, the order is not the cause of its exit, however late the exit is reported.
func (w *exitWatcher) markAlive() {
	for i := range w.ranks {
		if p := &w.ranks[i]; p.pid != 0 {
			p.aliveAtEnd.Store(!p.isDying())
		}
	}
}

// add starts to watch a rank that has just been started. The caller keeps ownership of pmi.
func (w *exitWatcher) add(rank, pid, pidfd int, pmi *os.File) error {
	p := &w.ranks[rank]
	p.pid, p.pidfd = pid, pidfd
	conn, err := pmi.SyscallConn()
	if err == nil {
		controlErr := conn.Control(func(fd uintptr) { p.pmi, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(controlErr, err)
	}
	if err == nil {
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, p.pmi,
			&unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(rank), Pad: connectionClosed})
	}
	if err == nil {
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, pidfd,
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(rank), Pad: processExited})
	}
	if err != nil {
		return fmt.Errorf("watch the process: %w", err)
	}
	return nil
}

// next blocks until another rank has exited, and returns it with the time when its exit was first noticed. All ranks must have
// been added before the first call.
func (w *exitWatcher) next() (rank int, when time.Time, err error) {
	for len(w.queue) == 0 {
		if err := w.wait(); err != nil {
			return 0, when, fmt.Errorf("watch processes: %w", err)
		}
	}
	rank = w.queue[0]
	w.queue = w.queue[1:]
	return rank, w.ranks[rank].dyingSince, nil
}

// wait blocks until an event occurs, and processes it.
func (w *exitWatcher) wait() error {
	events := make([]unix.EpollEvent, 64)
	n, err := unix.EpollWait(w.epoll, events, -1)
	if err != nil && err != unix.EINTR {
		return err
	}
	now := time.Now()
	for _, e := range events[:max(n, 0)] {
		rank := int(e.Fd)
		p := &w.ranks[rank]
		if e.Pad == connectionClosed && (p.finalized.Load() || !p.isDying()) {
			continue // it has closed its connection, but is not exiting
		}
		if p.dyingSince.IsZero() {
			p.dyingSince = now
		}
		if e.Pad == processExited {
			w.enqueueInOrder(rank)
		} else {
			w.dying = append(w.dying, rank)
		}
	}
	return nil
}

// enqueueInOrder adds a rank to the queue, after those that began to exit before it.
func (w *exitWatcher) enqueueInOrder(rank int) {
	for len(w.dying) > 0 && !w.ranks[rank].queued {
		first := w.dying[0]
		w.dying = w.dying[1:]
		if first == rank || w.ranks[first].hasExited(exitTimeoutMillis) {
			w.enqueue(first)
		}
	}
	w.enqueue(rank)
}

func (w *exitWatcher) enqueue(rank int) {
	if p := &w.ranks[rank]; !p.queued {
		p.queued = true
		w.queue = append(w.queue, rank)
		unix.Close(p.pmi)
	}
}

// isDying reports whether a rank has exited or is exiting. Without /proc it does not recognize a rank that is still exiting.
func (w *watchedProcess) isDying() bool {
	p, err := proctree.ReadProcess(w.pid)
	return w.hasExited(0) || err == nil && p.Exiting
}

// hasExited reports whether a rank has exited. It waits for that at most so many milliseconds.
func (w *watchedProcess) hasExited(milliseconds int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.pidfd), Events: unix.POLLIN}}, milliseconds)
	return err == nil && n == 1
}
