package launch

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper takes in every child that dies, those that became children because their parents died included. One
// process has at most one reaper, and nothing else in it waits for children while the reaper works.
type reaper struct {
	// gone is closed when there are no children any more, and so, under a subreaper, no descendants.
	gone chan struct{}

	mu     sync.Mutex
	news   sync.Cond
	status map[int]*unix.WaitStatus // of the children that somebody asks about, nil for those that live
}

// becomeSubreaper makes orphans among the descendants children of this process.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	return nil
}

// newReaper begins with the children there are. It remembers what became of those whose pids are given.
func newReaper(pids ...int) *reaper {
	r := &reaper{gone: make(chan struct{}), status: map[int]*unix.WaitStatus{}}
	r.news.L = &r.mu
	for _, pid := range pids {
		r.status[pid] = nil
	}
	go r.run()
	return r
}

func (r *reaper) run() {
	for {
		ws := new(unix.WaitStatus)
		pid, err := unix.Wait4(-1, ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD
			close(r.gone)
			return
		}
		r.mu.Lock()
		if _, known := r.status[pid]; known {
			r.status[pid] = ws
			r.news.Broadcast()
		}
		r.mu.Unlock()
	}
}

// wait waits until a child has died whose pid was given to newReaper.
func (r *reaper) wait(pid int) unix.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.status[pid] == nil {
		r.news.Wait()
	}
	return *r.status[pid]
}
