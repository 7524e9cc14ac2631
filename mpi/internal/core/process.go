package core

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/clocks"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/contextids"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Process is one process of a job. Any goroutine may call its methods.
type Process struct {
	engine  *proto.Engine
	boot    *bootstrap.Process
	handler HandlerOf // of errors that belong to no communicator and no session, unless Self exists
	check   bool      // calls are checked
	// classOf is Config.ClassOf.
	classOf func(error) (Class, bool)

	recording Recording

	world *Comm // nil before the World Model is opened, like self
	self  *Comm
	// finalizing is set when Finalize is called, finalized when it has run the callbacks of
	// attributes.
	finalizing, finalized atomic.Bool

	contextIDs contextids.IDs
	comms      commTable
	ctrl       creation.Queue // messages for communicators that are being created from groups
	keys       attrs.Space[*Comm]
	numbers    sync.Pool // of *Number
	packings   packingPool
	typeKeys   attrs.Space[*Datatype]

	machine    Machine
	registered Registrations
	clocks     clocks.Sync
	env        environment
	codes      ErrorCodes

	mu        sync.Mutex
	users     int         // number of users of the engine: Join, the World Model and sessions; the last one closes it
	hasJoined bool        // Join is one of the users
	leaving   bool        // Finalize is in progress, and the World Model is the only user: there will be no other
	table     *coll.Table // of algorithms of collectives; nil: those of the library only
	nodes     []int32     // number of the node by process, the same at all processes; nil if they do not know the same
}

var errNoProcess = errors.New("the process is nil or the zero Process: Init or Join has returned an error")

// IsNone reports whether p is nil or the zero Process, which stand for no process.
func (p *Process) IsNone() bool { return p == nil || p.boot == nil }

// checkUsable returns an error if there is no process.
func (p *Process) checkUsable(op string) error {
	if p.IsNone() {
		return newError(op, ErrOther, errNoProcess)
	}
	return nil
}

// CallResult returns the error of the call op: that there is no process, or else err as an error of
// this call, nil for nil.
func (p *Process) CallResult(op string, err error) error {
	if unusable := p.checkUsable(op); unusable != nil {
		return unusable
	}
	return p.wrapError(op, err)
}

// World returns the communicator of all processes of the job; nil if the World Model has not been
// opened.
func (p *Process) World() *Comm {
	if p == nil {
		return nil
	}
	return p.world
}

// Self returns the communicator of this process alone; nil if the World Model has not been opened.
func (p *Process) Self() *Comm {
	if p == nil {
		return nil
	}
	return p.self
}

// firstNumbers returns the numbers from 0 to n-1, of processes or ranks.
func firstNumbers[T int | int32](n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = T(i)
	}
	return all
}
