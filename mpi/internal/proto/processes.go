package proto

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// confirmTimeout bounds the wait for the transport's report that a process has closed, when the
// launcher has reported it. The transport's report is preferred because it follows all messages.
const confirmTimeout = 2 * time.Second

// Processes has the calls about processes that have failed, have finalized, or have left a context.
type Processes struct {
	mu         *lock.Mutex // of the engine
	links      *links
	departures *departures
	contexts   *Contexts
	waiters    *waiters
	poller     *poller
}

// Processes returns what is known of the other processes.
func (e *Engine) Processes() *Processes { return &e.processes }

// Abort makes the engine fail with err: every call that waits, and every later call, returns it.
func (p *Processes) Abort(err error) {
	p.mu.Lock()
	if p.links.failure.err == nil {
		p.links.setFailed(fmt.Errorf("%w: %w", ErrFailed, err))
	}
	p.mu.Unlock()
}

// LostPeer returns the error to report for an error that says that a process is down, found outside
// the engine.
func (p *Processes) LostPeer(n int32, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links.transportError(n, err)
}

// AllowFinalize makes it no failure from now on if any process finalizes.
func (p *Processes) AllowFinalize() {
	p.mu.Lock()
	p.links.failure.finalizing = true
	p.mu.Unlock()
}

// PeerError makes progress once. It returns an error if one of these processes has finalized or
// left the context, or if the engine has failed. If a message could not be sent to a process
// because it has closed, it counts as finalized, although its own messages may still arrive.
func (p *Processes) PeerError(context uint32, peers []int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poller.progress()
	return cmp.Or(p.departures.firstGone(context, peers), p.links.firstRefusing(peers), p.links.failure.err)
}

// Err makes progress once. It returns the error with which the engine has failed, or nil.
func (p *Processes) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poller.progress()
	return p.links.failure.err
}

// WaitMessageOrExit blocks until an unexpected message of a context is there, or more than seen
// reports have come that a process has finalized or left a context. It returns how many have come.
// sender is the process from which a message is expected. Meanwhile the recorder shows op as the
// current operation.
func (p *Processes) WaitMessageOrExit(op perf.Op, context uint32, sender int32, seen int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.links.rec.Configured.Leave(p.links.rec.Active.Enter(op, -1, -1, 0))
	from := Route{Context: context, Peer: sender, Match: Match{Rank: sender, Tag: AnyTag}}
	g := goal{watch: watch{what: messageOrExit, from: from, value: uint64(seen)}}
	p.waiters.await(&g)
	if !p.waiters.reached(&g) {
		return p.links.failure.finalized, p.links.failure.err
	}
	return p.links.failure.finalized, nil
}

// FinalizedPeer returns an error if one of these processes has finalized or left the context, and
// no unexpected message of the context is left. Nothing more will come from that process then.
func (p *Processes) FinalizedPeer(context uint32, peers []int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links.failure.finalized == 0 || p.contexts.table(context).FindUnexpected(AnySource, AnyTag) != nil {
		return nil
	}
	return p.departures.firstGone(context, peers)
}

// Left must be called when the launcher reports that processes have left the job. A process that
// this one needs is treated as if its transport had closed, after all that it has sent has arrived.
func (p *Processes) Left(ranks []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rank := range ranks {
		if rank < 0 || rank >= len(p.links.peers) || rank == p.links.self || p.departures.closed {
			continue
		}
		n := int32(rank)
		x := p.links.peer(n)
		if x.finalized != nil || x.announced {
			continue
		}
		p.links.failure.finalized++
		if p.links.failure.needed == nil || p.links.failure.needed(n, true) {
			p.confirmLeft(n)
		}
		x.announced = true
		p.links.dropMessagesTo(n)
	}
	p.waiters.rouseAll()
}

// confirmLeft connects to a process that has left, so that its transport reports it, in order. If
// that takes long it is treated as reported.
func (p *Processes) confirmLeft(n int32) {
	if p.links.connect(n) == nil {
		p.links.sendControl(n, wire.Envelope{Kind: wire.Watch})
	}
	time.AfterFunc(confirmTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.departures.closed {
			p.links.fail(n, errAnnounced)
		}
	})
}

// Watch sends Watch to a process for a context.
func (p *Processes) Watch(context uint32, n int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.departures.watch(member{context, n})
}
