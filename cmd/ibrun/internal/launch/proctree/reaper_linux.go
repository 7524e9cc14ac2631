package proctree

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Reaper reaps every child that exits, including those that became children because their parents died. A process has at most
// one reaper, and must not wait for children in another way while the reaper runs.
type Reaper struct {
	// Gone is closed when this process has no children any more. If it is a subreaper, it then has no descendants either.
	Gone chan struct{}

	mu    sync.Mutex // held while a child is started: see Start
	news  sync.Cond
	exits map[int]*exit // of the children passed to NewReaper or started by Start; nil while a child lives
	ended bool          // Gone is closed
}

// exit is how a child has ended, and what it and the children that it has waited for have used.
type exit struct {
	status unix.WaitStatus
	usage  unix.Rusage
}

// wait waits for a child.
func (x *exit) wait(options int) (pid int, err error) {
	return unix.Wait4(-1, &x.status, options, &x.usage)
}

// cpu returns the processor time that was used.
func (x *exit) cpu() time.Duration { return time.Duration(x.usage.Utime.Nano() + x.usage.Stime.Nano()) }

// BecomeSubreaper makes this process the parent of descendants whose own parent dies.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	return nil
}

// NewReaper starts to reap the children of this process. It keeps the exit statuses of the given pids.
func NewReaper(pids ...int) *Reaper {
	r := &Reaper{Gone: make(chan struct{}), exits: map[int]*exit{}}
	r.news.L = &r.mu
	for _, pid := range pids {
		r.exits[pid] = nil
	}
	go r.run()
	return r
}

func (r *Reaper) run() {
	for {
		x := new(exit)
		pid, err := x.wait(0)
		if err == unix.EINTR {
			continue
		}
		if r.record(pid, x, err) {
			return
		}
	}
}

// record records a child that has exited, or the error of waiting for one, and reaps all others that have exited. It reports
// whether no child is left. Then it closes Gone before Wait returns, so that who has waited for the last child need not search
// for others.
func (r *Reaper) record(pid int, x *exit, err error) (ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil { // ECHILD, unless Start has started a child since
		pid, err = x.wait(unix.WNOHANG)
	}
	for err == nil && pid > 0 {
		if _, known := r.exits[pid]; known {
			r.exits[pid] = x
		}
		x = new(exit)
		pid, err = x.wait(unix.WNOHANG) // it does not block, so that no signal interrupts it
	}
	if r.ended = err != nil; r.ended {
		close(r.Gone)
	}
	r.news.Broadcast()
	return r.ended
}

// ErrGone means that the process had no children any more.
var ErrGone = errors.New("no child is left")

// Start starts a further child by calling start, and keeps its exit status as well. If Gone is closed, or about to be closed,
// it returns ErrGone and does not call start: then a new reaper is needed.
func (r *Reaper) Start(start func() (pid int, err error)) (pid int, err error) {
	r.mu.Lock() // the child is not reaped before its pid is known
	defer r.mu.Unlock()
	if r.ended {
		return 0, ErrGone
	}
	if pid, err = start(); err == nil {
		r.exits[pid] = nil
	}
	return pid, err
}

// Wait blocks until a child has exited, and returns its exit status, and the processor time that it and the children that it has
// waited for have used. The pid must have been passed to NewReaper, or be that of a child that Start has started.
func (r *Reaper) Wait(pid int) (ws unix.WaitStatus, used time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.exits[pid] == nil {
		r.news.Wait()
	}
	return r.exits[pid].status, r.exits[pid].cpu()
}
