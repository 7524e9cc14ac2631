package tcp

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// state is the state of the connection to a peer.
type state uint8

const (
	unconnected state = iota // no connection was tried by either side
	dialing                  // a connection attempt is in progress, or scheduled
	up                       // the connection can be used
	closing                  // closed here; messages that were sent before are still being passed to the kernel
	closed                   // lost, or closed by either side
)

// endpoint is the connection with one peer. Domain.mu guards it.
type endpoint struct {
	d       *Domain
	peer    int32
	stream  stream
	state   state
	sendErr error // what Send returns when the state is closing or closed

	// Receiving: buf[:filled] are received frames. Frames before parsed have been parsed, and messages before delivered have
	// been returned by Poll: delivered <= parsed <= filled.
	buf                       []byte // nil: empty
	delivered, parsed, filled int
	borrowed                  bool   // in Domain.borrowed: events refer to buf, which must not change before the next Poll
	inReady                   bool   // in Domain.ready: there are messages in buf, or a PeerDown event is due
	inActive                  bool   // in Domain.active
	inBuffered                bool   // in Domain.buffered
	idlePolls                 int    // while active: polls without input since the last input
	busyPolls                 int    // while active: polls with input since the program last slept
	retransmits               uint32 // this connection's part of Domain.retransmits
	unwatched                 bool   // the socket is not in the epoll set
	recvInto                  []byte // where the next received bytes go: memory of the oldest Read, or of a Read of a push
	downErr                   error  // why nothing is received any more: reported when buf is empty
	downReported              bool   // PeerDown has been returned by Poll, or must not be
	sentSinceQuickAck         bool   // something was sent since the last requestQuickAck
	reads                     reads
	pushes                    pushes

	// Sending: what the kernel has not taken yet, in this order: outHead, outBody, out[outSent:].
	outHead          []byte                                          // rest of the header of the frame that outBody belongs to
	outBody          []byte                                          // rest of registered memory that the peer reads, or of a push
	outKey           uint64                                          // key of its region
	out              []byte                                          // messages; nil: none
	outSent          int                                             // the first bytes of out that have been sent
	headBuf          [2*headerBytes + pushHeader + requestBytes]byte // memory of outHead
	serving          serving                                         // Reads of the peer
	inUnsent         bool                                            // in Domain.unsent
	watchingWritable bool                                            // epoll reports when the kernel can take more

	// Connecting.
	session  session          // what this side proposes, or what the two peers have agreed on
	addrs    []netip.AddrPort // of the peer, in the order in which they are tried
	nextAddr int              // index in addrs
	attempt  *handshake       // nil: none in progress
	retryAt  time.Time        // when the next round of attempts begins
	backoff  time.Duration    // delay before that round
	giveUpAt time.Time        // when the peer is reported as unreachable
	lastErr  error            // error of the last attempt, or of sending
}

// Stream returns 0: a payload that is longer than a message is pushed, which copies it once less.
func (e *endpoint) Stream() int { return 0 }

// Write is not supported: a peer reads memory itself.
func (e *endpoint) Write([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, fmt.Errorf("%w: tcp cannot write memory of a peer; the peer has to read", fabric.ErrNotSupported)
}
