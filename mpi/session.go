package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Maximum lengths of names in bytes. C's constants also count the final NUL.
const (
	// MaxPsetName is the maximum length of a process set's name. MPI-5.0 §11.3.2.
	MaxPsetName = core.MaxPsetName
	// MaxStringTag is the maximum length of the tag of CommFromGroup and IntercommFromGroups. MPI-5.0 §7.4.2.
	MaxStringTag = core.MaxStringTag
)

// Session is an independent use of MPI in a process: libraries of one program can open sessions without knowing of
// each other. A session names process sets; groups are obtained from these, and communicators are created from
// groups. Any goroutine may call its methods. MPI-5.0 §11.3.
type Session core.Session

func (s *Session) core() *core.Session { return (*core.Session)(s) }

// OpenSession opens a session. Several may be open at the same time, before, during and after the World Model. It does not
// wait for other processes. Unknown hints are ignored; Info returns the hints in force. It fails with ErrOther when
// the process has left the job. MPI-5.0 §11.3.1.
func (p *Process) OpenSession(info *Info) (*Session, error) {
	s, err := p.core().OpenSession(info.core())
	return (*Session)(s), public(err)
}

// Close ends the session. It first frees the communicators of the session that have not been freed, as if by
// concurrent calls of Free, so it waits for the other processes in them. Without any it does not wait. Callbacks of
// attributes run first, and may use the session. Every later call of the session fails with ErrSession, including
// Close. No other call may be in progress. Because of a panic Close does what [Process.Finalize] does then.
// MPI-5.0 §11.3.1.
func (s *Session) Close() error { return public(s.core().Close()) }

// Info returns the session's hints in a new Info. thread_level is always MPI_THREAD_MULTIPLE. mpi_memory_alloc_kinds
// contains mpi and system, and mpi:alloc_mem if it was requested. MPI-5.0 §11.3.4.
func (s *Session) Info() (*Info, error) { return info(s.core().Info()) }

// Group returns the group of a process set, to which this process need not belong. It fails with ErrArg if no set has
// that name, and with ErrProcFailed once a process of the job is known to be lost. It does not wait for other
// processes. MPI-5.0 §7.3.2.
func (s *Session) Group(name string) (*Group, error) { return group(s.core().Group(name)) }
