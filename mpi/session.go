package mpi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
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
	return errors.Join(err, c.release(op))
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

// NumPsets is the number of process sets that this process is in. It never becomes less. There is no hint yet.
// MPI-5.0 §11.3.2.
func (s *Session) NumPsets(_ *Info) (int, error) {
	if err := s.checkUsable("Session.NumPsets"); err != nil {
		return 0, err
	}
	return len(s.proc.psetList.mine), nil
}

// NthPset is the name of process set n of those that this process is in, from 0; it never changes, and has 1 to
// MaxPsetName bytes. Any other n is ErrArg. There is no hint yet. MPI-5.0 §11.3.2.
func (s *Session) NthPset(_ *Info, n int) (string, error) {
	const op = "Session.NthPset"
	if err := s.checkUsable(op); err != nil {
		return "", err
	}
	mine := s.proc.psetList.mine
	if n < 0 || n >= len(mine) {
		return "", s.newError(op, ErrArg, fmt.Errorf("process set %d of %d", n, len(mine)))
	}
	return mine[n].name, nil
}

// CopyNthPset is NthPset into a buffer: as much of the name as fits. It returns the length of the whole name, however
// long the buffer; that may be nil. On an error it is left alone. MPI-5.0 §11.3.2.
func (s *Session) CopyNthPset(info *Info, n int, buf []byte) (length int, err error) {
	name, err := s.NthPset(info, n)
	if err != nil {
		return 0, err
	}
	copy(buf, name)
	return len(name), nil
}

// PsetInfo describes a process set, in a new Info: mpi_size is the number of its processes. The name is as NthPset has it,
// or known otherwise; that of no set is ErrArg. MPI-5.0 §11.3.4.
func (s *Session) PsetInfo(name string) (*Info, error) {
	set, err := s.pset("Session.PsetInfo", name)
	if err != nil {
		return nil, err
	}
	i := &Info{}
	return i, i.Set("mpi_size", strconv.Itoa(len(set.peers)))
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

// pset finds a set by its name.
func (s *Session) pset(op, name string) (*pset, error) {
	if err := s.checkUsable(op); err != nil {
		return nil, err
	}
	set, err := s.proc.psetList.find(name)
	if err != nil {
		return nil, s.newError(op, ErrArg, fmt.Errorf("process set %q: %w", name, err))
	}
	return set, nil
}

// psetList is the process sets of a job. It does not change.
type psetList struct {
	mine   []*pset // those with this process, in the order of their numbers
	others []*pset
}

// pset is a process set. Sets of the same name have no process in common.
type pset struct {
	name  string
	peers []int32
}

// loadPsets makes the catalogue of the process, once. The caller holds mu.
func (p *Process) loadPsets() (err error) {
	if p.psetList == nil {
		p.psetList, err = newPsetList(p.boot)
	}
	return err
}

// psets is the catalogue of the process.
func (p *Process) psets() (*psetList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.loadPsets()
	return p.psetList, err
}

func newPsetList(at *bootstrap.Process) (*psetList, error) {
	world := make([]int, at.Size)
	for i := range world {
		world[i] = i
	}
	sets := []bootstrap.Pset{{Name: "mpi://WORLD", Ranks: world}, {Name: "mpi://SELF", Ranks: []int{at.Rank}}}
	if at.Psets != nil {
		more, err := at.Psets()
		if err != nil {
			return nil, fmt.Errorf("find the process sets of the job: %w", err)
		}
		sets = append(sets, more...)
	}
	k := &psetList{}
	for _, s := range sets {
		set := &pset{name: s.Name}
		for _, r := range s.Ranks {
			set.peers = append(set.peers, int32(r))
		}
		if slices.Contains(s.Ranks, at.Rank) {
			k.mine = append(k.mine, set)
		} else {
			k.others = append(k.others, set)
		}
	}
	return k, nil
}

// find returns this process's set of that name, or the only one.
func (k *psetList) find(name string) (found *pset, err error) {
	for _, s := range k.mine {
		if s.name == name {
			return s, nil
		}
	}
	for _, s := range k.others {
		if s.name == name && found != nil {
			return nil, errors.New("there are several of that name, and this process is in none of them")
		}
		if s.name == name {
			found = s
		}
	}
	if found == nil {
		return nil, errors.New("there is none")
	}
	return found, nil
}
