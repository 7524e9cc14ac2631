package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/perf"
)

// Maximum lengths of names in bytes. C's constants also count the final NUL.
const (
	// MaxPsetName is the maximum length of a process set's name.
	MaxPsetName = 1023
	// MaxStringTag is the maximum length of the tag of CommFromGroup and IntercommFromGroups.
	MaxStringTag = 1023
)

// Session is an independent use of MPI in a process: libraries of one program can open sessions
// without knowing of each other. A session names process sets; groups are obtained from these, and
// communicators are created from groups. Any goroutine may call its methods.
type Session struct {
	proc    *Process
	psets   *Psets
	hints   *Info
	handler HandlerOf
	// closing is set when Close is called, closed when it has run the callbacks of attributes.
	closing, closed atomic.Bool
}

// OpenSession opens a session.
func (p *Process) OpenSession(info *Info) (*Session, error) {
	const op = "OpenSession"
	if err := p.checkUsable(op); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.addUser(op); err != nil {
		return nil, err
	}
	sets, err := p.machine.psets.get(p.boot)
	if err != nil {
		// Without removeUser, which would lock mu again.
		p.users-- // not the last user: addUser found one
		return nil, p.wrapError(op, err)
	}
	s := &Session{proc: p, psets: sets, hints: sessionHints(info)}
	s.handler.Set(p.handler.Get())
	return s, nil
}

// sessionHints returns the hints that a session reports: those that always hold, and the requested
// ones that it supports.
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

// Close ends the session.
func (s *Session) Close() error {
	op := perf.SessionClose.String()
	if s == nil || s.proc == nil {
		return newError(op, ErrSession, errNoSession)
	}
	if !s.closing.Load() {
		if err := s.proc.checkUnwinding(op); err != nil {
			return err
		}
	}
	if s.closing.Swap(true) {
		return s.newError(op, ErrSession, errClosed)
	}
	ended := s.proc.recording.call(perf.SessionClose)
	failed := s.proc.deleteAttributes(s)
	// After the callbacks: they may use the session, and free or create communicators.
	s.closed.Store(true)
	comms := s.proc.comms.open(s)
	errs := make([]error, len(comms))
	var all sync.WaitGroup
	where := ""
	if s.proc.check {
		where = callPosition()
	}
	// At the same time, since each waits for the same communicator at other ranks. These may have
	// created theirs in another order.
	for i, c := range comms {
		all.Go(func() { errs[i] = newAgreement(c, perf.SessionClose).releaseWithPeers(where) })
	}
	all.Wait()
	ended()
	err := join(errs...)
	return s.proc.wrapError(op, join(failed, s.proc.removeUser(err)))
}

// releaseWithPeers waits until all ranks release the communicator, and releases it, even if
// callbacks of attributes have failed.
func (a *agreement) releaseWithPeers(where string) error {
	c, op := a.comm, a.op
	if !c.freeing.CompareAndSwap(false, true) {
		return c.newError(op, ErrComm, errors.New("the communicator is being freed"))
	}
	var err error
	if c.checks { // another rank may call Free instead
		err = c.coll.compare(&checking.Call{Call: perf.Free, Idups: c.coll.idupSeq.Load(), Where: where}, nil)
	}
	if err == nil {
		err = a.agreeToFree(nil)
	}
	err = c.releaseAfter(err, op, commSessionClosed)
	c.coll.idups.Wait()
	return err
}

var (
	errNoSession = errors.New("the session is nil or the zero Session")
	errClosed    = errors.New("the session has been closed")
)

func (s *Session) newError(op string, class Class, err error) error {
	return s.proc.raise(&Error{Class: class, Op: op, Rank: s.proc.boot.Rank, Err: err, at: origin{session: s}})
}

// checkUsable returns an error if the session is nil, the zero Session, or closed.
func (s *Session) checkUsable(op string) error {
	switch {
	case s == nil || s.proc == nil:
		return newError(op, ErrSession, errNoSession)
	case s.closed.Load():
		return s.newError(op, ErrSession, errClosed)
	}
	return nil
}

// CallResult returns the error of the call op: that the session cannot be used, or else err as an
// error of this call, nil for nil.
func (s *Session) CallResult(op string, err error) error {
	if unusable := s.checkUsable(op); unusable != nil || err == nil {
		return unusable
	}
	return s.newError(op, s.proc.classify(err), err)
}

// Info returns the session's hints in a new Info. thread_level is always MPI_THREAD_MULTIPLE.
// mpi_memory_alloc_kinds contains mpi and system, and mpi:alloc_mem if it was requested.
func (s *Session) Info() (*Info, error) {
	if err := s.checkUsable("Session.Info"); err != nil {
		return nil, err
	}
	return s.hints.Dup(), nil
}

// Group returns the group of a process set, to which this process need not belong.
func (s *Session) Group(name string) (*Group, error) {
	set, err := s.Psets().find(name)
	if err := s.CallResult("Session.Group", err); err != nil {
		return nil, err
	}
	if err := s.proc.engine.Processes().Err(); err != nil {
		return nil, s.CallResult("Session.Group", fmt.Errorf("process set %s: %w", name, err))
	}
	return &Group{s.proc, s, set.peers}, nil
}
