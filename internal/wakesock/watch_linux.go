package wakesock

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watcher reports the processes of a node that have ended.
type Watcher struct {
	file *os.File
	done chan struct{} // closed when the goroutine has ended
}

// Watch takes over the epoll set of a node of n processes. A goroutine of its own calls ended with each process whose receiving
// end was closed, once.
//
// On a node of more than 500 processes, nothing is reported later: the runtime's poller is an epoll set too, and the kernel
// refuses a socket that wakes more than 500 sets through another one (path_limits in fs/eventpoll.c). The launcher still
// announces what has ended.
func Watch(epoll, n int, ended func(process int)) (*Watcher, error) {
	// The runtime's poller only takes non-blocking descriptors. The flag is shared by all processes, which all set it.
	if err := unix.SetNonblock(epoll, true); err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("watch the processes of this node: %w", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(epoll), "processes of this node"), done: make(chan struct{})}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("watch the processes of this node: %w", err)
	}
	go func() {
		defer close(w.done)
		seen := make([]bool, n)
		events := make([]unix.EpollEvent, n)
		_ = conn.Read(func(fd uintptr) bool { // it fails because of Close, or on a large node
			report(int(fd), events, seen, ended)
			return false // wait for the next
		})
	}()
	return w, nil
}

// report calls ended with the processes that were not seen before.
func report(epoll int, events []unix.EpollEvent, seen []bool, ended func(int)) {
	for _, e := range events[:ready(epoll, events)] {
		if i := int(e.Fd); i >= 0 && i < len(seen) && !seen[i] {
			seen[i] = true
			ended(i)
		}
	}
}

// ready fills events with the processes that have ended, and returns their number.
//
// Other processes read the set at the same time. In many versions of Linux epoll_wait without a timeout looks at the list of
// events without a lock, and may find it empty while another process reads it. The runtime's poller reports an event once, so a
// process would never be reported. poll takes the lock.
func ready(epoll int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(epoll, events, 0)
		if err != nil {
			return 0 // EINTR is not possible, as it does not wait
		}
		if n != 0 {
			return n
		}
		readable := []unix.PollFd{{Fd: int32(epoll), Events: unix.POLLIN}}
		if n, err := unix.Poll(readable, 0); n == 0 || err != nil {
			return 0
		}
	}
}

// Close ends the goroutine and closes the epoll set. No call of ended is made or running afterwards.
func (w *Watcher) Close() error {
	err := w.file.Close()
	<-w.done
	return err
}
