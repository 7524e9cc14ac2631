package proctree

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper takes in every child that dies, those that became children because their parents died included. One
// process has at most one reaper, and nothing else in it waits for children while the reaper works.
type Reaper struct {
	// gone is closed when there are no children any more, and so, under a subreaper, no descendants.
	Gone chan struct{}

	mu     sync.Mutex
	news   sync.Cond
	status map[int]*unix.WaitStatus // of the children that somebody asks about, nil for those that live
}

// BecomeSubreaper makes orphans among the descendants children of this process.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	return nil
}

// NewReaper begins with the children there are. It remembers what became of those whose pids are given.
func NewReaper(pids ...int) *Reaper {
	r := &Reaper{Gone: make(chan struct{}), status: map[int]*unix.WaitStatus{}}
	r.news.L = &r.mu
	for _, pid := range pids {
		r.status[pid] = nil
	}
	go r.run()
	return r
}

func (r *Reaper) run() {
	for {
		ws := new(unix.WaitStatus)
		pid, err := unix.Wait4(-1, ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // ECHILD
			close(r.Gone)
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

// Wait waits until a child has died whose pid was given to newReaper.
func (r *Reaper) Wait(pid int) unix.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.status[pid] == nil {
		r.news.Wait()
	}
	return *r.status[pid]
}
