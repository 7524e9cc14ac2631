package mpi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/perf"
)

// Limits of names, in bytes; those of C have a NUL more.
const (
	// MaxPsetName is that of a process set's name. MPI-5.0 §11.3.2.
	MaxPsetName = 1023
	// MaxStringTag is that of the tag of CommFromGroup and IntercommFromGroups. MPI-5.0 §7.4.2.
	MaxStringTag = 1023
)

// Session is one user's own use of MPI in a process: libraries of one program open theirs without knowing of each other. It
// names process sets; groups come from these, and communicators from groups. Any goroutine may call its methods.
// MPI-5.0 §11.3.
type Session struct {
	proc   *Process
	hints  *Info
	closed atomic.Bool
}

// OpenSession opens a session. Several may be open at once, before, during and after the World Model. It waits for no other
// process. Hints that are not known are ignored; Info tells which count. It is ErrOther when the process has left the job.
// MPI-5.0 §11.3.1.
func (p *Process) OpenSession(info *Info) (*Session, error) {
	const op = "OpenSession"
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addUser(op); err != nil {
		return nil, err
	}
	if err := p.loadPsets(); err != nil {
		p.users-- // it is not the last
		return nil, p.wrapError(op, err)
	}
	return &Session{proc: p, hints: sessionHints(info)}, nil
}

// sessionHints are what a session reports: what it always provides, and of what was asked for what it has.
func sessionHints(asked *Info) *Info {
	kinds := []string{"mpi", "system"}
	value, _ := asked.Get("mpi_memory_alloc_kinds")
	for kind := range strings.SplitSeq(value, ",") {
		if kind = strings.TrimSpace(kind); kind == "mpi:alloc_mem" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	i := &Info{}
	_ = i.Set("thread_level", "MPI_THREAD_MULTIPLE") // these cannot fail
	_ = i.Set("mpi_memory_alloc_kinds", strings.Join(kinds, ","))
	return i
}

// Close ends the session. Communicators made in it that have not been freed are freed first, as if by Free at the same time,
// so it waits for the other processes in these; without any it waits for nobody. Every later call of the session is
// ErrSession, Close too. No other may be under way. MPI-5.0 §11.3.1.
func (s *Session) Close() error {
	op := perf.SessionClose.String()
	if s == nil {
		return newError(op, ErrSession, errNoSession)
	}
	if s.closed.Swap(true) {
		return s.newError(op, ErrSession, errClosed)
	}
	ended := s.proc.recordCall(perf.SessionClose)
	comms := s.proc.openComms(s)
	failed := s.proc.deleteAttributes(comms)
	errs := make([]error, len(comms))
	var all sync.WaitGroup
	for i, c := range comms {
		all.Go(func() { errs[i] = c.releaseWithPeers(perf.SessionClose) })
	}
	all.Wait()
	ended()
	err := errors.Join(errs...)
	return s.proc.wrapError(op, errors.Join(failed, s.proc.removeUser(err)))
}

// releaseWithPeers ends a communicator together with its other ranks, whatever its attributes' callbacks have said.
func (c *Comm) releaseWithPeers(call perf.Op) error {
	op := call.String()
	if !c.freeing.CompareAndSwap(false, true) {
		return c.newError(op, ErrComm, errors.New("the communicator is being freed"))
	}
	c.idups.Wait()
	err := c.newAgreement(call).agreeSuccess(nil)
	return errors.Join(err, c.release(op, commSessionClosed))
}

var (
	errNoSession = errors.New("the session is nil")
	errClosed    = errors.New("the session has been closed")
)

func (s *Session) newError(op string, class Class, err error) error {
	return s.proc.raise(&Error{class, op, s.proc.boot.Rank, err})
}

// checkUsable refuses a session that is nil or closed.
func (s *Session) checkUsable(op string) error {
	switch {
	case s == nil:
		return newError(op, ErrSession, errNoSession)
	case s.closed.Load():
		return s.newError(op, ErrSession, errClosed)
	}
	return nil
}

// Info tells the session's hints, in a new Info: thread_level, which is MPI_THREAD_MULTIPLE whatever was asked for, and
// mpi_memory_alloc_kinds, which is mpi and system, and mpi:alloc_mem if that was asked for. MPI-5.0 §11.3.4.
func (s *Session) Info() (*Info, error) {
	if err := s.checkUsable("Session.Info"); err != nil {
		return nil, err
	}
	return s.hints.Dup(), nil
}

// Group is the group of a process set, which this process may be in or not. It is ErrArg if there is none of that name,
// and ErrProcFailed once a process of the job is known to be lost. It waits for nobody.
// MPI-5.0 §7.3.2.
func (s *Session) Group(name string) (*Group, error) {
	const op = "Session.Group"
	set, err := s.pset(op, name)
	if err != nil {
		return nil, err
	}
	if err := s.proc.engine.Err(); err != nil {
		return nil, s.newError(op, classify(err), fmt.Errorf("process set %s: %w", name, err))
	}
	return &Group{s.proc, s, set.peers}, nil
}
