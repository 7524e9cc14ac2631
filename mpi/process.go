package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Config changes how a process initialises. A nil Config and the zero value select the defaults. Not in MPI-5.0.
type Config struct {
	// Place says where the process stands; nil asks the environment. Only package mpitest can make one.
	Place *bootstrap.Process
	// Fatal aborts the whole job on the first error of any call, like MPI_ERRORS_ARE_FATAL, the default of C programs.
	Fatal bool
	// UnexpectedBytes limits the memory for unexpected messages, which arrived before their receives; 0 means 64 MiB. When
	// it is used up, senders wait.
	UnexpectedBytes int
	// PinnedBytes limits the memory that stays registered with RDMA devices while no message uses it; 0 means 1 GiB.
	PinnedBytes int
	// Thresholds select the protocol by message length.
	Thresholds Thresholds
}

// Thresholds are payloads in bytes up to which messages travel in one way and beyond which in another; docs/transports.md tells
// which ways there are, and `ibrun explain` what is in force. They must be the same at every process. A field that is 0
// leaves its length to the environment variable that is named with it, and then to the transport; one that makes no sense is an
// error of Init.
type Thresholds struct {
	// ShmStream is the longest message that goes through shared memory in parts, unannounced. IBRUN_SHM_STREAM.
	ShmStream int
	// TCPEager is the longest message that is sent over TCP as one. IBRUN_TCP_EAGER.
	TCPEager int
	// TCPPush is how much of a message goes over TCP along with its announcement, before it is asked for. IBRUN_TCP_PUSH.
	TCPPush int
	// RDMAEager is the longest message that is sent over RDMA as one. IBRUN_RDMA_EAGER.
	RDMAEager int
	// RDMAStream is the longest message that goes over RDMA in parts, unannounced. IBRUN_RDMA_STREAM.
	RDMAStream int
	// RDMAInline is the longest message, its headers included, that the device takes within a request. IBRUN_RDMA_INLINE.
	RDMAInline int
	// RDMAPiece is the longest single RDMA READ. IBRUN_RDMA_PIECE.
	RDMAPiece int
}

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

// Init joins the job that a launcher started, and opens the World Model. Without a launcher it creates a world of one
// process. It returns when the process can communicate; ctx bounds the wait for the other processes. If the launcher
// does not speak a supported PMI protocol, Init fails, and the error contains the command to use instead.
// MPI-5.0 §11.2.1.
func Init(ctx context.Context, c *Config) (*Process, error) {
	p, err := newProcess(ctx, "Init", c)
	if err != nil {
		return nil, err
	}
	if err := p.InitWorld(); err != nil {
		return nil, err
	}
	return p, p.Leave()
}

// Join is Init without the World Model: the process has no World and no Self, but can open sessions, and later the
// World Model. It returns when all processes of the job have called Join or Init. Leave is its counterpart. In C the
// library joins the job implicitly; here no state is global. Not in MPI-5.0.
func Join(ctx context.Context, c *Config) (*Process, error) { return newProcess(ctx, "Join", c) }

func newProcess(ctx context.Context, op string, c *Config) (*Process, error) {
	if c == nil {
		c = &Config{}
	}
	at := c.Place
	if at == nil {
		var err error
		if at, err = bootstrap.FromEnv(ctx); err != nil {
			return nil, newError(op, ErrOther, err)
		}
	}
	p := &Process{boot: at, fatal: c.Fatal, users: 1, hasJoined: true}
	if err := p.startRecording(); err != nil {
		return nil, newError(op, ErrOther, err)
	}
	bed := proto.NewWaker()
	domain, err := at.Open(ctx, &fabric.Config{Self: at.Rank, Size: at.Size, Wake: bed.Wake},
		bootstrap.Thresholds(c.Thresholds))
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	p.engine, err = proto.New(proto.Config{
		Domain: domain, Self: at.Rank, Size: at.Size, Waker: bed, Oversubscribed: at.Oversubscribed,
		UnexpectedLimit: c.UnexpectedBytes, PinnedLimit: c.PinnedBytes, Owner: p, Address: at.Address, Warn: at.Report,
		Needed: p.needsPeer, Recorder: p.record, Clock: &p.clockSync, Trace: p.trace,
	})
	if err != nil {
		return nil, newError(op, ErrOther, errors.Join(err, domain.Close()))
	}
	p.contextIDs.init()
	p.ctrl.init(p.engine)
	if err := p.exchangeAtInit(ctx, op); err != nil {
		return nil, newError(op, ErrOther, errors.Join(err, p.engine.Close()))
	}
	if err := at.Started(); err != nil {
		return nil, newError(op, ErrOther, errors.Join(err, p.engine.Close()))
	}
	p.recordJoined()
	p.clockSync.start()
	return p, nil
}

// InitWorld opens the World Model in a process that has joined the job without it. World and Self are set when it
// returns. It does not wait for other processes, and can be called once. Sessions may be open before, during and
// after the World Model. MPI-5.0 §11.2.1.
func (p *Process) InitWorld() error {
	const op = "InitWorld"
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.world != nil {
		return p.raise(&Error{ErrOther, op, p.boot.Rank, errors.New("the World Model has already been initialised")})
	}
	if err := p.addUser(op); err != nil {
		return err
	}
	world := make([]int32, p.boot.Size)
	for i := range world {
		world[i] = int32(i)
	}
	p.world = p.newComm(world, p.boot.Rank)
	p.world.activate(worldID << 1)
	p.self = p.newComm([]int32{int32(p.boot.Rank)}, 0)
	p.self.activate(selfID << 1)
	return nil
}

var errNotJoined = errors.New("the process has left the job: call Leave only after the last use")

// addUser counts one more user of the engine: Join, the World Model or a session. The caller must hold mu.
func (p *Process) addUser(op string) error {
	if p.users == 0 {
		return p.raise(&Error{ErrOther, op, p.boot.Rank, errNotJoined})
	}
	p.users++
	return nil
}

// Leave is the counterpart of Join. The process leaves the job for good as soon as it has neither an open session nor
// the World Model. Leave does not wait for other processes. It does nothing when called again or after Init.
// Not in MPI-5.0.
func (p *Process) Leave() error {
	p.mu.Lock()
	joined := p.hasJoined
	p.hasJoined = false
	p.mu.Unlock()
	if !joined {
		return nil
	}
	return p.wrapError("Leave", p.removeUser(nil))
}

// removeUser is called when Join, the World Model or a session no longer needs the engine. err is the error with
// which it ended. The last user closes the engine. removeUser returns err joined with errors of that.
func (p *Process) removeUser(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users != 0 {
		return err
	}
	p.clockSync.stop()
	p.engine.AllowFinalize()
	if err == nil {
		err = p.engine.FlushSends()
	}
	err = errors.Join(err, p.engine.Close())
	p.record.Finish()
	p.stopProfile()
	if err == nil {
		err = p.boot.Finalized()
	}
	return err
}

// needsPeer reports whether process n, which has closed, belongs to a communicator that this process still uses.
func (p *Process) needsPeer(n int32) (missed bool) {
	p.comms.Range(func(c, _ any) bool {
		c2 := c.(*Comm)
		missed = !c2.freeing.Load() && slices.Contains(c2.coll.peers, n)
		return !missed
	})
	return missed
}

// World returns the communicator of all processes of the job; nil if the World Model has not been opened.
// MPI-5.0 §7.2.4.
func (p *Process) World() *Comm { return p.world }

// Self returns the communicator of this process alone; nil if the World Model has not been opened. MPI-5.0 §7.2.4.
func (p *Process) Self() *Comm { return p.self }

// Finalize ends the World Model. It is collective over World: it returns when every process has called it and every
// sent message has left. No other call of the World Model may be in progress or follow. A second Finalize does
// nothing. Sessions remain open.
//
// Attributes are deleted first, while communication still works: those of Self in reverse order of setting, then
// those of the other communicators, the newest communicator first. If callbacks fail, Finalize continues and joins
// their errors to its own. MPI-5.0 §11.2.2.
func (p *Process) Finalize() error {
	const op = "Finalize"
	p.mu.Lock()
	none := p.world == nil
	p.mu.Unlock()
	if none {
		return p.raise(&Error{ErrOther, op, p.boot.Rank, errors.New("the World Model has not been initialised")})
	}
	if p.finalized.Swap(true) {
		return nil
	}
	ours := p.openComms(nil)
	failed := p.deleteAttributes(ours)
	for _, c := range ours {
		c.freeing.Store(true) // peers may leave the job from now on
	}
	err := p.world.barrier(perf.Finalize)
	for _, c := range ours {
		err = errors.Join(err, c.release(op))
	}
	return p.wrapError(op, errors.Join(failed, p.removeUser(err)))
}

// openComms returns the communicators of a session, or of the World Model if s is nil, in the order of their
// creation.
func (p *Process) openComms(s *Session) []*Comm {
	var comms []*Comm
	p.comms.Range(func(c, _ any) bool {
		if c := c.(*Comm); c.session == s && !c.freed.Load() {
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

// Abort ends all processes of the job with an exit code from 1 to 255. The system keeps the last 8 bits of other
// codes, and 0 becomes 1. Abort does not return under a launcher or in a world of one process. In a test with mpitest
// it ends that world and returns an error. MPI-5.0 §9.4.
func (p *Process) Abort(code int) error {
	p.stopProfile()
	why := fmt.Sprintf("rank %d called Abort(%d)", p.boot.Rank, code)
	err := p.boot.Abort(code, why)
	p.engine.Abort(err)
	return newError("Abort", ErrProcFailed, err)
}

// BufferAttach provides buf as memory for buffered sends until BufferDetach. Each message uses its length and at most
// BsendOverhead bytes more. MPI-5.0 §3.6.
func (p *Process) BufferAttach(buf []byte) error {
	if err := p.engine.Attach(buf); err != nil {
		return p.raise(&Error{ErrBuffer, "BufferAttach", p.boot.Rank, errors.New("a buffer is already attached")})
	}
	return nil
}

// BufferDetach blocks until all buffered messages have left, and returns the buffer. MPI-5.0 §3.6.
func (p *Process) BufferDetach() ([]byte, error) {
	buf, err := p.engine.Detach()
	if errors.Is(err, proto.ErrState) {
		return nil, p.raise(&Error{ErrBuffer, "BufferDetach", p.boot.Rank, errors.New("no buffer is attached")})
	}
	return buf, p.wrapError("BufferDetach", err)
}
