package tcp

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/tcpflow"
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
	checked bool // frames of this connection, or of the last one, have checksums, and so have those in out
	state   state
	sendErr error // what Send returns when the state is closing or closed

	// Receiving: buf[:filled] are received frames. Frames before parsed have been parsed, and messages before delivered have
	// been returned by Poll: delivered <= parsed <= filled.
	buf                       []byte // nil: empty
	delivered, parsed, filled int
	received                  uint64 // position of this session: bytes of messages that have been received, and of the shutdown
	borrowed                  bool   // in Domain.borrowed: events refer to buf, which must not change before the next Poll
	lent                      []byte // the buffer that events refer to, if it is not buf any more
	inReady                   bool   // in Domain.ready: there are messages in buf, or a PeerDown event is due
	inActive                  bool   // in Domain.active
	inBuffered                bool   // in Domain.buffered
	idlePolls                 int    // while active: polls without input since the last input
	busyPolls                 int    // while active: polls with input since the program last slept
	retransmits               uint32 // this connection's part of Domain.retransmits
	unwatched                 bool   // the socket is not in the epoll set
	memory                    incomingMemory
	downErr                   error // why nothing is received any more: reported when buf is empty
	downReported              bool  // PeerDown has been returned by Poll, or must not be
	sentSinceQuickAck         bool  // something was sent since the last requestQuickAck
	reads                     reads
	pushes                    pushes

	// Sending: what the kernel has not taken yet, in this order: outHead, outBody, out, with control before position controlAt.
	outHead          []byte   // rest of the headers of the frame that outBody belongs to, or of a push
	outBody          []byte   // rest of registered memory that the peer reads, or of a push
	outKey           uint64   // key of its region
	out              retained // messages, and the shutdown
	control          []byte   // frames of other kinds
	controlAt        uint64
	deferred         bool                                            // SendLater has left the end of out unsent
	ackSent          uint64                                          // the value of received in the last frame that was made
	headBuf          [2*headerBytes + pushHeader + requestBytes]byte // memory of outHead
	serving          serving                                         // Reads of the peer
	inUnsent         bool                                            // in Domain.unsent
	watchingWritable bool                                            // epoll reports when the kernel can take more

	// Connecting, and connecting again.
	session    session          // what this side proposes, or what the two peers have agreed on
	agreed     bool             // a connection with this session was made
	confirmed  bool             // the peer has shown that it knows that
	addrs      []netip.AddrPort // of the peer, in the order in which they are tried
	nextAddr   int              // index in addrs
	refusals   int              // attempts in this round that hosts have refused
	path       netip.Addr       // the address of the peer that the last connection led to
	attempt    *handshake       // nil: none in progress
	retryAt    time.Time        // when the next round of attempts begins
	backoff    time.Duration    // delay before that round
	giveUpAt   time.Time        // when the peer is reported as lost; zero: there is a connection, and the peer answers
	lastErr    error            // error of the last attempt, or of sending
	broken     error            // why the last connection ended
	since      time.Time        // when it ended, or when the first one was tried
	mismatches int              // checksums that did not match, since the last message or memory that arrived
	flow       tcpflow.Flow     // whether what was sent arrives
	vain       int              // connections in a row over which nothing has arrived
	told       bool             // the peer knows that nothing that was sent before this connection has arrived
	unheard    time.Time        // when the peer has said that nothing that it sends arrives; zero: never, or much has arrived
	unreached  bool             // the peer was lost because nothing that was sent has arrived
}

// self reports whether the endpoint connects the domain to itself.
func (e *endpoint) self() bool { return int(e.peer) == e.d.self }

// connecting reports whether a connection has to be made, for the first time or again, or whether the peer does not respond on
// the one that there is.
func (e *endpoint) connecting() bool { return !e.giveUpAt.IsZero() && e.state != closed }

// Write is not supported: a peer reads memory itself.
func (e *endpoint) Write([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, fmt.Errorf("%w: tcp cannot write memory of a peer; the peer has to read", fabric.ErrNotSupported)
}
