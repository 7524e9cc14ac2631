package mpi

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Process is one process of a job. Any goroutine may call its methods. MPI-5.0 §11.2.
type Process struct {
	engine     *proto.Engine
	boot       *bootstrap.Process
	record     *perf.Recorder
	trace      *perf.Trace // nil unless the user has asked for one
	profile    *profile.Collector
	fatal      bool
	world      *Comm // with self, nil outside of the World Model
	self       *Comm
	contextIDs contextIDs
	comms      sync.Map // communicators that have not been freed, and those that processes without a common one make
	registered registrations
	ctrl       ctrlQueue
	clockSync  clockSync
	env        environment
	codes      errorCodes

	keys        attrs.Space[*Comm]
	lastCommSeq atomic.Uint64 // of communicators
	finalized   atomic.Bool   // finalized

	mu        sync.Mutex
	users     int       // by Join, the World Model and sessions; the last to go closes the engine
	hasJoined bool      // Join's is among them
	psetList  *psetList // nil until it is needed
}

// World returns the communicator of all processes of the job; nil if the World Model has not been opened.
// MPI-5.0 §7.2.4.
func (p *Process) World() *Comm { return p.world }

// Self returns the communicator of this process alone; nil if the World Model has not been opened. MPI-5.0 §7.2.4.
func (p *Process) Self() *Comm { return p.self }

// openComms returns the communicators of a session, or of the World Model if s is nil, in the order of their
// creation.
func (p *Process) openComms(s *Session) []*Comm {
	var comms []*Comm
	p.comms.Range(func(c, _ any) bool {
		if c := c.(*Comm); c.session == s && c.state.Load() == commReady {
			comms = append(comms, c)
		}
		return true
	})
	slices.SortFunc(comms, func(a, b *Comm) int { return cmp.Compare(a.seq, b.seq) })
	return comms
}

// wrapError wraps an error of a lower layer; nil stays nil.
func (p *Process) wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	return p.raise(&Error{classify(err), op, p.boot.Rank, err})
}
