package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// state is the state of the connection to a peer.
type state uint8

const (
	unconnected state = iota // no connection was tried by either side
	dialing                  // a connection attempt is in progress, or scheduled
	up                       // there is a connection, or it is made again
	closing                  // closed here; the peer has not received all messages that were sent before
	closed                   // lost, or closed by either side
)

// endpoint is the connection with one peer. Domain.mu guards it.
type endpoint struct {
	d       *Domain
	peer    int32
	stream  stream
	state   state
	conn    connState
	polling polling

	// Receiving.
	in                input
	reading           reading
	downErr           error // why nothing is received any more: reported when in is empty
	downReported      bool  // PeerDown has been returned by Poll, or must not be
	sentSinceQuickAck bool  // something was sent since the last requestQuickAck

	// Sending.
	out     output
	framing framing
	serving serving // Reads of the peer
	sendErr error   // what Send returns when the state is closing or closed
}

// polling says in which work lists of the domain an endpoint is, and what epoll is asked about it.
type polling struct {
	ready            bool // in Domain.ready: there are messages to return, or a PeerDown event is due
	active           bool // in Domain.active
	buffered         bool // in Domain.buffered
	unsent           bool // in Domain.unsent
	idlePolls        int  // while active: polls without input since the last input
	busyPolls        int  // while active: polls with input since the program last slept
	unwatched        bool // the socket is not in the epoll set
	watchingWritable bool // epoll reports when the kernel can take more
}

// self reports whether the endpoint connects the domain to itself.
func (e *endpoint) self() bool { return int(e.peer) == e.d.self }

// connecting reports whether a connection has to be made, for the first time or again, or whether the peer does not respond on
// the one that there is.
func (e *endpoint) connecting() bool { return !e.conn.giveUpAt.IsZero() && e.state != closed }

// Write is not supported: a peer reads memory itself.
func (e *endpoint) Write([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, fmt.Errorf("%w: tcp cannot write memory of a peer; the peer has to read", fabric.ErrNotSupported)
}
