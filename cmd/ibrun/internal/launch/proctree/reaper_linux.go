package proctree

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper reaps every child that exits, including those that became children because their parents died. A process has at most
// one reaper, and must not wait for children in another way while the reaper runs.
type Reaper struct {
	// Gone is closed when this process has no children any more. If it is a subreaper, it then has no descendants either.
	Gone chan struct{}

	mu     sync.Mutex
	news   sync.Cond
	status map[int]*unix.WaitStatus // of the children passed to NewReaper; nil while a child lives
}

// BecomeSubreaper makes this process the parent of descendants whose own parent dies.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	return nil
}

// NewReaper starts to reap the children of this process. It keeps the exit statuses of the given pids.
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

// Wait blocks until a child has exited, and returns its exit status. The pid must have been passed to NewReaper.
func (r *Reaper) Wait(pid int) unix.WaitStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.status[pid] == nil {
		r.news.Wait()
	}
	return *r.status[pid]
}
