package proto

import (
	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/perf"
)

// peer is the state of an engine for one process, which may be its own.
type peer struct {
	ep           fabric.Endpoint // nil until first used
	pusher       fabric.Pusher   // ep, if it implements that
	gatherer     fabric.Gatherer // ep, if it implements that
	deferrer     fabric.Deferrer // ep, if it implements that
	combining    bool            // in links.combining.peers; then deferrer is set
	path         *path           // set together with ep
	measured     *cost.Peer      // of messages to the peer; nil: there are none
	link         perf.Link       // counts messages with the peer; zero while recording is off
	inactiveLink perf.Link       // swapped with link when recording is switched on or off
	// maxEager is the largest payload that may be sent immediately. It is -1 while the peer is not
	// connected, while messages wait for room, and while the peer has paused this sender.
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
	listed         bool      // in links.blocked
	usedWords      uint64    // bitmap of the words of sendWords in use
	sendWords      []uint64  // words shared for sends to it; nil: none, or not asked for yet
	recvWords      []uint64  // the same for receives from it
}

// updateMaxEager sets maxEager. It must be called when something that maxEager depends on has
// changed.
func (p *peer) updateMaxEager() {
	p.maxEager = -1
	if p.ep != nil && p.head == nil && !p.paused && p.finalized == nil && !p.announced {
		p.maxEager = p.path.thresholds.MaxEager
	}
}

// sharedWords returns the words shared with the peer n for receives from it; nil if there are none.
// copier is that of the links.
func (p *peer) sharedWords(n int32, copier fabric.CooperativeCopier) []uint64 {
	if p.recvWords == nil && copier != nil {
		p.recvWords = copier.Words(int(n), true)
	}
	return p.recvWords
}
