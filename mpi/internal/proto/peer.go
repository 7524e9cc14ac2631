package proto

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// peer is the state of an engine for one process, which may be its own.
type peer struct {
	ep           fabric.Endpoint // nil until first used
	pusher       fabric.Pusher   // ep, if it implements that
	gatherer     fabric.Gatherer // ep, if it implements that
	deferrer     fabric.Deferrer // ep, if it implements that
	combining    bool            // in Engine.combining.peers; then deferrer is set
	path         *path           // set together with ep
	measured     *cost.Peer      // of messages to the peer; nil: there are none
	link         perf.Link       // counts messages to and from the peer; the zero Link while recording is off
	inactiveLink perf.Link       // swapped with link when recording is switched on or off
	// maxEager is the largest payload that may be sent immediately. It is -1 while the peer is not connected, while messages
	// wait for room, and while the peer has paused this sender.
	maxEager       int
	finalized      error // nil until the peer has finalized; then the error of all sends to it
	paused         bool  // the peer has paused this process: it accepts only RTS
	pausing        bool  // this process has paused the peer
	noRemoteAccess bool  // the peer's memory can be neither read nor written
	announced      bool  // the launcher has reported that the peer has finalized; see gone
	refuses        bool  // a message could not be sent because the peer has closed; see refused

	moves uint32 // how often another domain has taken over, see reroute

	sent, received uint32    // messages to and from the peer, counted while messages are traced
	frags          assembly  // the fragmented message that is arriving
	head, tail     *outgoing // messages that wait for room, in order
	listed         bool      // in Engine.blocked
	usedWords      uint64    // bitmap of the words of sendWords in use
	sendWords      []uint64  // words shared with the peer for sends to it; nil: none, or not asked for yet
	recvWords      []uint64  // the same for receives from it
}

// peer returns the state for a process.
func (e *Engine) peer(n int32) *peer {
	if p := e.peers[n]; p != nil {
		return p
	}
	return e.newPeer(n)
}

func (e *Engine) newPeer(n int32) *peer {
	p := &peer{maxEager: -1}
	if e.failure.hasClosed(n) {
		p.finalized = &failureError{n, fabric.ErrPeerClosed}
	}
	e.peers[n] = p
	return p
}

// path is what all peers that one domain reaches have in common.
type path struct {
	domain      fabric.Domain
	caps        fabric.Caps
	thresholds  protocols.Thresholds
	cooperative bool // domain is a fabric.CooperativeCopier
	packedPiece int  // payload of each message of data in parts, if it is sent immediately in several
	transport   perf.Transport
	regs        *regcache.Cache          // of memory that peers read or write; nil if it need not be registered
	retransmits fabric.RetransmitCounter // nil if the domain does not implement it
	reconnects  fabric.ReconnectCounter  // nil if the domain does not implement it
	multiRail   fabric.MultiRail         // nil if the domain does not implement it
}

// acquire registers memory with the device, if that is necessary, until the memory is released.
func (x *path) acquire(b []byte) (regcache.Memory, error) {
	if x.regs != nil {
		return x.regs.Acquire(b)
	}
	r, err := x.domain.Register(b)
	return regcache.Memory{Remote: r.Remote, Local: r}, err
}

// copiedPiece is the payload of each message of data in parts where this process copies it: short enough that the receiver
// unpacks most of it while the rest is packed, long enough that the messages themselves cost little.
const copiedPiece = 8 << 10

func newPath(d fabric.Domain, pinned int) (*path, error) {
	x := &path{domain: d, caps: d.Caps()}
	x.transport = perf.TransportNamed(x.caps.Transport)
	x.retransmits, _ = d.(fabric.RetransmitCounter)
	x.reconnects, _ = d.(fabric.ReconnectCounter)
	x.multiRail, _ = d.(fabric.MultiRail)
	var err error
	if x.thresholds, err = protocols.ThresholdsOf(x.caps); err != nil {
		return nil, err
	}
	x.packedPiece = x.thresholds.FragmentSize
	if _, x.cooperative = d.(fabric.CooperativeCopier); x.cooperative {
		x.packedPiece = min(x.packedPiece, copiedPiece)
	}
	if x.caps.Read && !x.caps.Direct {
		x.regs = regcache.New(d, pinned)
	}
	return x, nil
}

// pathTo returns the path to a process.
func (e *Engine) pathTo(n int32) *path {
	if e.router == nil {
		return e.paths[0]
	}
	d := e.router.Route(int(n))
	return e.paths[slices.IndexFunc(e.paths, func(x *path) bool { return x.domain == d })]
}

// connect creates the endpoint of a peer unless it exists.
func (e *Engine) connect(n int32) error {
	p := e.peer(n)
	if p.finalized != nil || p.announced {
		return p.gone(n)
	}
	if p.ep != nil {
		return nil
	}
	ep, err := e.domain.Connect(int(n), e.addr(n))
	if err != nil {
		return e.transportError(n, fmt.Errorf("connect to process %d: %w", n, err))
	}
	p.ep, p.path = ep, e.pathTo(n)
	p.pusher, _ = ep.(fabric.Pusher)
	p.gatherer, _ = ep.(fabric.Gatherer)
	p.deferrer, _ = ep.(fabric.Deferrer)
	if t := p.path.transport; p.link.Zero() || p.link.Transport() != t {
		p.link = e.rec.Active.Link(int(n), t)
	}
	p.updateMaxEager()
	return nil
}

// updateMaxEager sets maxEager. It must be called when something that maxEager depends on has changed.
func (p *peer) updateMaxEager() {
	p.maxEager = -1
	if p.ep != nil && p.head == nil && !p.paused && p.finalized == nil && !p.announced {
		p.maxEager = p.path.thresholds.MaxEager
	}
}

// sharedWords returns the words shared with the peer n for receives from it; nil if there are none. copier is that of the engine.
func (p *peer) sharedWords(n int32, copier fabric.CooperativeCopier) []uint64 {
	if p.recvWords == nil && copier != nil {
		p.recvWords = copier.Words(int(n), true)
	}
	return p.recvWords
}

// transportError returns the error to report for an error of the transport. A send may be the first to notice that a peer is
// down: then the engine fails.
func (e *Engine) transportError(n int32, err error) error {
	if errors.Is(err, fabric.ErrPeerDown) {
		e.fail(n, err)
		if e.failure.err != nil {
			return e.failure.err
		}
		if p := e.peer(n); p.finalized != nil {
			return p.finalized
		}
	}
	return err
}

// LostPeer returns the error to report for an error that says that a process is down, found outside the engine.
func (e *Engine) LostPeer(n int32, err error) error {
	e.lock()
	defer e.unlock()
	return e.transportError(n, err)
}
