package proto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// links are the connections of an engine: what is known of each process, and the messages on their
// way to the transport. Their methods that send are in sendqueue.go: post, and sendControl for
// messages of no send request. The lock of the engine guards them. They know no engine. When a
// message has been sent or a process is lost, they return that to the caller, or call a function of
// notified.
type links struct {
	self     int // number of this process
	domain   fabric.Domain
	router   fabric.Router // nil if one domain reaches all processes
	paths    []*path
	copier   fabric.CooperativeCopier // nil if the domain has no shared words
	addr     func(int32) []byte
	now      func() time.Duration // the time for measurements; called with and without the lock
	rec      *record.Recording
	hints    *hintSet
	failure  *failures
	notified notified
	warn     func(string) // Config.Warn
	warned   bool         // that memory cannot be registered

	peers     []*peer // an entry is nil until the first message to or from the peer
	control   controlPool
	staging   []byte  // where data in parts is packed for an endpoint that is not a fabric.Gatherer
	blocked   []int32 // peers with messages that wait for room in the transport
	combining combining
}

// notified are the functions that links call, with the lock held. A send whose message is sent at
// once, as most are, needs none of them.
type notified struct {
	// finished is called by finishMessage for the message of a send, with the same err.
	finished func(r *Request, err error)
	// closed is called when a process has closed that this one does not need.
	closed func(n int32, err error)
	// failed is called when the loss of a process has made the engine fail.
	failed func(err error)
}

// open sets what does not change. Nothing may be sent before.
func (l *links) open(c *Config) error {
	l.self, l.domain, l.warn, l.peers = c.Self, c.Domain, c.Warn, make([]*peer, c.Size)
	l.addr = func(int32) []byte { return nil }
	if c.Address != nil {
		l.addr = func(n int32) []byte { return c.Address(int(n)) }
	}
	start := time.Now()
	l.now = func() time.Duration { return time.Since(start) }
	l.combining.limit, l.combining.longest = rowTicks, longestWoken
	l.router, _ = c.Domain.(fabric.Router)
	l.copier, _ = c.Domain.(fabric.CooperativeCopier)
	routes := []fabric.Domain{c.Domain}
	if l.router != nil {
		routes = l.router.Routes()
	}
	for _, d := range routes {
		x, err := newPath(d, cmp.Or(c.PinnedLimit, regcache.DefaultLimit))
		if err != nil {
			return err
		}
		l.paths = append(l.paths, x)
	}
	return nil
}

// peer returns the state for a process.
func (l *links) peer(n int32) *peer {
	if p := l.peers[n]; p != nil {
		return p
	}
	return l.newPeer(n)
}

func (l *links) newPeer(n int32) *peer {
	p := &peer{maxEager: -1}
	if l.failure.hasClosed(n) {
		p.finalized = &failureError{n, fabric.ErrPeerClosed}
	}
	l.peers[n] = p
	return p
}

// pathTo returns the path to a process.
func (l *links) pathTo(n int32) *path {
	if l.router == nil {
		return l.paths[0]
	}
	d := l.router.Route(int(n))
	return l.paths[slices.IndexFunc(l.paths, func(x *path) bool { return x.domain == d })]
}

// connect creates the endpoint of a peer unless it exists.
func (l *links) connect(n int32) error {
	p := l.peer(n)
	if p.finalized != nil || p.announced {
		return p.gone(n)
	}
	if p.ep != nil {
		return nil
	}
	ep, err := l.domain.Connect(int(n), l.addr(n))
	if err != nil {
		return l.transportError(n, fmt.Errorf("connect to process %d: %w", n, err))
	}
	p.ep, p.path = ep, l.pathTo(n)
	p.pusher, _ = ep.(fabric.Pusher)
	p.gatherer, _ = ep.(fabric.Gatherer)
	p.deferrer, _ = ep.(fabric.Deferrer)
	if t := p.path.transport; p.link.Zero() || p.link.Transport() != t {
		p.link = l.rec.Active.Link(int(n), t)
	}
	p.updateMaxEager()
	return nil
}

// hasFinalized reports whether a process has finalized.
func (l *links) hasFinalized(n int32) bool {
	if p := l.peers[n]; p != nil {
		return p.finalized != nil
	}
	return l.failure.hasClosed(n)
}

// fail records that a process has failed or closed; failure.go says which of the two. n is -1 if
// the transport of this process has failed.
func (l *links) fail(n int32, err error) {
	f := l.failure
	if f.err != nil || n >= 0 && l.hasFinalized(n) {
		return
	}
	silent := n >= 0 && l.peers[n] == nil && errors.Is(err, fabric.ErrPeerClosed)
	err = &failureError{n, err}
	if n < 0 || !f.mayLeave(n, err) {
		l.setFailed(err)
		l.rec.Configured.LostPeer()
		return
	}
	if silent {
		f.setClosed(n, len(l.peers))
	} else {
		p := l.peer(n)
		p.finalized = err
		p.updateMaxEager()
	}
	f.finalized++
	l.notified.closed(n, err)
}

// setFailed makes the engine fail with err. The error is set first, since those that are told read
// it.
func (l *links) setFailed(err error) {
	l.failure.err = err
	l.notified.failed(err)
}

// transportError returns the error to report for an error of the transport. A send may be the first
// to notice that a peer is down: then the engine fails.
func (l *links) transportError(n int32, err error) error {
	if errors.Is(err, fabric.ErrPeerDown) {
		l.fail(n, err)
		if l.failure.err != nil {
			return l.failure.err
		}
		if p := l.peer(n); p.finalized != nil {
			return p.finalized
		}
	}
	return err
}

// firstRefusing returns the error of the first of these processes to which a message could not be
// sent because it has closed, or nil.
func (l *links) firstRefusing(peers []int32) error {
	for _, n := range peers {
		if p := l.peers[n]; p != nil && p.refuses {
			return &failureError{n, fabric.ErrPeerClosed}
		}
	}
	return nil
}

// linkTo returns the counters of a peer's messages. The peer may send before this side has
// connected.
func (l *links) linkTo(n int32) *perf.Link {
	p := l.peer(n)
	if p.link.Zero() && l.rec.Active != nil {
		p.link = l.rec.Active.Link(int(n), l.pathTo(n).transport)
	}
	return &p.link
}

// countReceived returns the trace number of a message that has arrived; 0 if messages are not
// traced.
func (l *links) countReceived(peer int32) uint32 {
	if l.rec.Trace == nil {
		return 0
	}
	p := l.peer(peer)
	p.received++
	return p.received
}
