package core

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Init joins the job that a launcher started, and opens the World Model.
func Init(ctx context.Context, c *Config) (*Process, error) {
	p, err := newProcess(ctx, "Init", c)
	if err != nil {
		return nil, err
	}
	if err := p.openWorld("Init"); err != nil {
		return nil, err
	}
	return p, p.Leave()
}

// Join is Init without the World Model: the process has no World and no Self, but can open
// sessions, and later the World Model.
func Join(ctx context.Context, c *Config) (*Process, error) { return newProcess(ctx, "Join", c) }

// newProcess joins the job. It reads the settings first, so that a wrong one is found before other
// processes wait for this one. The first user of the engine is the call of Init or Join itself,
// which Leave ends; Init does so when the World Model uses it.
func newProcess(ctx context.Context, op string, c *Config) (*Process, error) {
	boot := bootstrap.FromContext(ctx)
	if boot == nil {
		var err error
		if boot, err = bootstrap.FromEnv(ctx); err != nil {
			return nil, newError(op, ErrOther, err)
		}
	}
	check, err := checkFromEnv(os.Getenv)
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	poll, err := tunables.PollFromEnv(os.Getenv)
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	forced, err := tunables.ProtocolFromEnv(os.Getenv)
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	table, err := coll.ReadTable(os.Getenv)
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	p := &Process{boot: boot, check: c.Check || check && bootstrap.FromContext(ctx) == nil,
		classOf: c.ClassOf, users: 1, hasJoined: true, table: table}
	if c.Fatal {
		p.handler.Set(ErrorsAreFatal())
	}
	p.machine.boot = boot
	if err := p.recording.start(boot, p.check); err != nil {
		return nil, newError(op, ErrOther, err)
	}
	waker := proto.NewWaker()
	// The waker exists before the domain, which calls it, and before the engine, which sleeps by
	// it.
	domain, err := boot.Open(ctx, &fabric.Config{Self: boot.Rank, Size: boot.Size, Wake: waker.Wake},
		c.Thresholds)
	if err != nil {
		return nil, newError(op, ErrOther, err)
	}
	p.engine, err = proto.New(proto.Config{
		Domain: domain, Self: boot.Rank, Size: boot.Size, Waker: waker, Oversubscribed: boot.Oversubscribed,
		Poll:            cmp.Or(poll, boot.Poll),
		UnexpectedLimit: c.UnexpectedBytes, PinnedLimit: c.PinnedBytes, Owner: p, Address: boot.Address, Warn: boot.Report,
		Needed: p.comms.need, Members: p.comms.members, Recorder: p.recording.record, Clock: &p.clocks, Trace: p.recording.trace,
		Checks: p.check, ExactBit: collectiveBit, Forced: forcedProtocol(forced, boot.Rank),
	})
	if err != nil {
		return nil, newError(op, ErrOther, join(err, domain.Close()))
	}
	p.recording.engine, p.registered.engine = p.engine, p.engine
	p.engine.SleepAtOnce(true) // the other processes start meanwhile
	p.contextIDs.Init(reservedIDs)
	p.ctrl.Init(p.engine, groupCreateContext)
	if err := p.exchangeAtInit(ctx, op); err != nil {
		return nil, newError(op, ErrOther, join(err, p.engine.Close()))
	}
	// Before Started, after which any goroutine may call it.
	boot.Left = p.engine.Processes().Left
	if err := boot.Started(); err != nil {
		return nil, newError(op, ErrOther, join(err, p.engine.Close()))
	}
	p.engine.SleepAtOnce(false)
	p.recording.joined(p.clocks.Clock.Now)
	p.clocks.Start()
	return p, nil
}

// InitWorld opens the World Model in a process that has joined the job without it. All processes
// are members, so it fails if one of them is lost or has left.
func (p *Process) InitWorld() error {
	const op = "InitWorld"
	if err := p.checkUsable(op); err != nil {
		return err
	}
	p.mu.Lock()
	open := p.users != 0 && p.world == nil // otherwise openWorld returns the error
	p.mu.Unlock()
	if open {
		if err := p.engine.Processes().PeerError(groupCreateContext, firstNumbers[int32](p.boot.Size)); err != nil {
			return p.wrapError(op, err)
		}
	}
	return p.openWorld(op)
}

// openWorld opens the World Model. No messages are needed: all processes know all members, and the
// context ids of World and Self are reserved.
func (p *Process) openWorld(op string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	// World stays set after Finalize: the World Model can be opened once.
	if p.world != nil {
		return p.newError(op, ErrOther, errors.New("the World Model has already been initialised"))
	}
	if err := p.addUser(op); err != nil {
		return err
	}
	p.world = p.newComm(firstNumbers[int32](p.boot.Size), p.boot.Rank)
	p.world.name = "MPI_COMM_WORLD"
	p.world.activate(worldID << 1)
	p.self = p.newComm([]int32{int32(p.boot.Rank)}, 0)
	p.self.name = "MPI_COMM_SELF"
	p.self.activate(selfID << 1)
	return nil
}

// Leave is the counterpart of Join. It does nothing after the first call that succeeds.
func (p *Process) Leave() error {
	if err := p.checkUsable("Leave"); err != nil {
		return err
	}
	p.mu.Lock()
	if !p.hasJoined {
		p.mu.Unlock()
		return nil
	}
	// The lock covers the test and the change of hasJoined, so that of two calls at the same time
	// one counts.
	err := p.checkUnwinding("Leave")
	p.hasJoined = err != nil
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.wrapError("Leave", p.removeUser(nil))
}

var errNotJoined = errors.New("the process has left the job: call Leave only after the last use")

// addUser counts one more user of the engine: Join, the World Model or a session. The caller must
// hold mu.
func (p *Process) addUser(op string) error {
	if p.users == 0 || p.leaving {
		return p.newError(op, ErrOther, errNotJoined)
	}
	p.users++
	return nil
}

// removeUser is called when Join, the World Model or a session no longer needs the engine. err is
// the error with which it ended. The last user closes the engine. removeUser returns err joined
// with errors of that.
func (p *Process) removeUser(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users != 0 {
		return err
	}
	// The comparison of clocks sends messages, so it ends while the engine can still send.
	p.clocks.Stop()
	p.engine.Processes().AllowFinalize()
	if err == nil {
		err = p.engine.FlushSends()
	}
	// Close returns an error for what it could not release. Finish warns the user of that instead,
	// since it is no reason to fail.
	if err == nil {
		err = p.engine.Finish()
	} else {
		err = join(err, p.engine.Close())
	}
	// The record says now that this rank has finalized, so the engine must be closed.
	p.recording.record.Finish()
	p.recording.stopProfile()
	// Without this report the launcher takes the end of the process for a failure, which is right
	// after an error.
	if err == nil {
		err = p.boot.Finalized()
	}
	return err
}

// Finalize ends the World Model. Callbacks of attributes run first, while communicators can still
// be used. A second call returns at once: it may be that of such a callback. After the barrier no
// process sends in these communicators any more, so they are released without further messages.
func (p *Process) Finalize() error {
	const op = "Finalize"
	if err := p.checkUsable(op); err != nil {
		return err
	}
	p.mu.Lock()
	none := p.world == nil
	p.mu.Unlock()
	if none {
		return p.newError(op, ErrOther, errors.New("the World Model has not been initialised"))
	}
	// Before the Swap below: a call that does nothing must not count, since a program that recovers
	// calls Finalize again.
	if !p.finalizing.Load() {
		if err := p.checkUnwinding(op); err != nil {
			return err
		}
	}
	if p.finalizing.Swap(true) {
		if p.check && p.finalized.Load() { // not in a callback
			return p.newError(op, ErrOther, errors.New("Finalize was called before"))
		}
		return nil
	}
	failed := p.deleteAttributes(nil)
	p.finalized.Store(true)
	ours := p.comms.open(nil) // after the callbacks, which may free and create communicators
	if p.check {
		p.reportUnfreed(ours)
	}
	// Before the barrier: a process that waits for a message of this one learns that none will
	// come, and gets to its own Finalize.
	p.leaveWorld(ours)
	err := p.finalizeBarrier()
	for _, c := range ours {
		err = join(err, c.release(op, commFinalized, p.engine.Contexts().End))
	}
	return p.wrapError(op, join(failed, p.removeUser(err)))
}

// leaveWorld ends this process's part in the communicators of the World Model, and in the creation
// of others if it has no other use of MPI. What other processes still expect of it there fails.
func (p *Process) leaveWorld(comms []*Comm) {
	for _, c := range comms {
		c.freeing.Store(true) // peers may leave the job from now on
		c.leave()
	}
	p.mu.Lock()
	p.leaving = p.users == 1
	p.mu.Unlock()
	if p.leaving { // set only here
		p.engine.Contexts().Leave(groupCreateContext)
	}
}

// finalizeBarrier blocks until all processes have called Finalize. It uses a context of its own, so
// that it cannot be taken for a collective that another process calls instead.
func (p *Process) finalizeBarrier() error {
	c := p.newComm(p.world.peers, p.boot.Rank)
	c.freeing.Store(true) // a process that has finished the barrier may leave the job
	c.coll.main.shm.tried = true
	c.activate(finalizeContext)
	p.engine.SleepAtOnce(true)
	defer p.engine.SleepAtOnce(false) // sessions may remain
	err := c.coll.Call(&Collective{Kind: perf.Barrier, as: perf.Finalize})
	if err == nil && p.check {
		err = checkUnfinished(c)
	}
	return c.releaseAfter(err, perf.Finalize.String(), commFreed)
}

// Finalized reports whether Finalize was called and has run the callbacks of attributes.
func (p *Process) Finalized() bool { return p != nil && p.finalized.Load() }
