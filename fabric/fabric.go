package fabric

import (
	"context"
	"errors"
	"fmt"
)

// Errors that protocols test for with errors.Is. Transports wrap them with details.
var (
	// ErrAgain means that the window to a peer is full: poll, then try again. It is never wrapped, so the hot path may compare
	// it with ==.
	ErrAgain = errors.New("fabric: window full")
	// ErrPeerDown means that the peer is lost: its process was killed, its connection broke, or it was closed.
	ErrPeerDown = errors.New("fabric: peer is down")
	// ErrPeerClosed is ErrPeerDown for a peer that has closed in order.
	ErrPeerClosed = fmt.Errorf("%w: it has closed", ErrPeerDown)
	// ErrCorrupt means that a peer wrote something that no correct peer writes. The endpoint is unusable afterwards.
	ErrCorrupt = errors.New("fabric: corrupt data from peer")
	// ErrClosed means that this process has closed the domain or endpoint.
	ErrClosed = errors.New("fabric: closed")
	// ErrNotReleased means that the system has refused to release something when a domain was closed. Peers and messages are not
	// concerned. The kernel releases it when the process ends.
	ErrNotReleased = errors.New("fabric: not released")
	// ErrNotSupported means that this transport, kernel or machine cannot do it; the wrapping error says what it needs.
	ErrNotSupported = errors.New("fabric: not supported")
)

// Transport is one way of moving bytes. Values are immutable and hold the transport's own settings.
type Transport interface {
	// Name returns the short name that users type: "mem", "shm", "tcp", "rdma".
	Name() string
	// Probe reports why the transport cannot work on this machine, or nil. It leaves nothing behind.
	Probe() error
	// Open joins the set of peers. It blocks until the domain can be connected to, or ctx ends.
	Open(ctx context.Context, cfg *Config) (Domain, error)
}

// Config identifies the process that opens a domain among its peers.
type Config struct {
	// Self is this process's number, 0 <= Self < Size.
	Self int
	// Size is the number of peers, this process included.
	Size int
	// Wake is called by a domain that has no file descriptor to sleep on (see [Domain.Arm]) when something arrived after
	// it was armed. It may be called from any goroutine, must not block and must not call methods of the domain. One late
	// call may follow, even after Close. Nil means that the caller never sleeps.
	Wake func()
}

// Domain is one process's membership in a set of peers. The package comment states the rules for concurrent calls.
//
// A domain may also implement [Router], [RetransmitCounter], [ReconnectCounter], [MultiRail], [SharedMemory] or
// [CooperativeCopier]. Callers find out by type assertion, once, at set-up.
type Domain interface {
	// Addr returns the address that a peer passes to Connect. It is opaque, constant, at most 256 bytes, and may be nil.
	// That of a [Router] is at most 1024 bytes.
	Addr() []byte
	// Caps returns limits and thresholds. They are constant for the domain's life; callers keep a copy.
	Caps() Caps
	// Register makes b reachable for Read and Write by peers until Deregister. The caller keeps b alive and must not move it.
	// If Caps().Direct is set, Register costs nothing and Deregister is not needed. If the system has no room for more
	// registrations the error is, by errors.Is, syscall.ENOMEM, ENOSPC or EAGAIN. If this memory cannot be registered it is
	// EFAULT, EACCES, EPERM or EOPNOTSUPP.
	Register(b []byte) (Region, error)
	// Deregister ends a registration. Bytes that were registered twice need two calls.
	Deregister(Region) error
	// Connect returns the endpoint to a peer, the same one every time. It does not wait for the peer: Send returns ErrAgain
	// until the peer has answered.
	Connect(peer int, addr []byte) (Endpoint, error)
	// Poll stores what has happened in evs, at most len(evs) events, and returns their number. It never blocks. It ends the
	// validity of the data that the previous Poll returned. An error means that the domain itself is broken; the failure of one
	// peer is an event.
	Poll(evs []Event) (int, error)
	// Arm prepares to sleep. If ready is true something has already arrived: poll again. Otherwise fd becomes readable
	// when something arrives; fd is -1 for a domain that calls Config.Wake instead. The next Poll disarms. Arm ends the
	// validity of the data that the last Poll returned. A caller with a message for which the window was full tries once more
	// after Arm and before it sleeps; it is woken when there is room.
	Arm() (fd int, ready bool, err error)
	// Close leaves the set of peers and frees everything. Peers receive the event PeerDown. Every later call returns
	// ErrClosed; Close may be repeated. With an error other than ErrNotReleased, messages may not have arrived.
	Close() error
}

// Endpoint is the connection to one peer. It may also implement [Pusher], [Gatherer] or [Scatterer].
type Endpoint interface {
	// Send copies header and payload as one message, or returns ErrAgain. Their lengths together are at most
	// Caps().MaxSend; a longer message is an error without further effect. The peer receives them joined in one Event.Data,
	// even if it has not connected to this side.
	Send(header, payload []byte) error
	// Read copies len(dst) bytes from the peer's registered memory at src into dst. local is the registration that
	// covers dst; it is ignored if Caps().Direct is set. If done is true, the bytes are in dst; otherwise an event of kind
	// Done with the token follows.
	Read(dst []byte, local Region, src RemoteKey, token uint64) (done bool, err error)
	// Write copies src into the peer's registered memory at dst. Its results are those of Read. The bytes of several Writes, and
	// of one, may appear there in any order, so the peer must not poll the memory. The peer finds all of them there once it
	// has received a message that was sent after the Write was done.
	Write(src []byte, local Region, dst RemoteKey, token uint64) (done bool, err error)
	// Close closes the connection. The peer receives the event PeerDown. Messages that the peer still sends are dropped. Every later
	// call returns ErrClosed; Close may be called again.
	Close() error
}

// Deferrer is an optional interface of an endpoint that can send several messages together, at the cost of one. Callers
// find out by type assertion, once, when they connect.
type Deferrer interface {
	// SendLater is Send for a message that may wait until the next Send, SendFrom, Push, Read or Flush of this endpoint, or the next
	// Poll of its domain. If none of them follows, the message is sent after some milliseconds. kept reports whether the message
	// waits. If kept is false and err is nil, it has been sent, and so have those before it.
	SendLater(header, payload []byte) (kept bool, err error)
	// Flush sends the messages that wait. Errors are reported as those of Send are.
	Flush()
}

// Pusher is an optional interface of an endpoint that can send memory before the peer asks to Read it. Callers find out by type
// assertion, once, when they connect.
type Pusher interface {
	// Push sends header as a message, as Send does. It may also send the first bytes, or all n bytes, of the registered memory
	// at src, in the expectation that the peer Reads that memory from the beginning as soon as it has received the message. If
	// the peer calls Read before its next Poll, Read finds these bytes and asks only for the rest. Otherwise they are
	// dropped, and a later Read asks for all. The memory must not change until the peer reports that it no longer needs it, as
	// for any Read.
	Push(header []byte, src RemoteKey, n int) error
}

// Caps are the capabilities and limits of a domain. Lengths are in bytes.
type Caps struct {
	// Transport is the name of the transport. It is empty for a domain that combines several.
	Transport string
	// MaxSend is the largest sum of header and payload of one Send.
	MaxSend int
	// Eager is the largest payload that is faster to send immediately than to leave to the peer to Read.
	Eager int
	// Fragment is the payload of each message if a payload is sent immediately in several messages. 0 means Eager.
	Fragment int
	// Stream is the largest payload that is sent immediately in several messages, unless measurements have shown what is faster.
	// 0 means Eager.
	Stream int
	// MaxStream is the largest payload that may be sent so at all. If it is not 0 the caller is to measure, for payloads longer
	// than Eager, whether they are faster so or by Read.
	MaxStream int
	// Read and Write report whether endpoints support these calls. If not, the calls return ErrNotSupported.
	Read, Write bool
	// Direct is set if any memory of this process may be named in a RemoteKey without registration.
	Direct bool
}

// RemoteKey names memory of a peer. Add an offset to Addr to name memory further on.
type RemoteKey struct {
	Addr uint64
	Key  uint64
}

// Region is a registration of local memory.
type Region struct {
	// Remote is what the peer needs to access the memory.
	Remote RemoteKey
	// Local is the domain's own handle for it.
	Local uint64
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of event.
const (
	// Message is a message from Peer, in Data.
	Message EventKind = iota + 1
	// Done is the completion of the Read or Write with this Token; Err is nil if it succeeded.
	Done
	// PeerDown is the loss of Peer. Err is ErrPeerClosed, or ErrPeerDown with the reason if it was lost. It is the last event
	// of that peer; events for what the peer had sent before precede it.
	PeerDown
	// Rerouted means that another domain of a [Router] reaches Peer from now on. The endpoint has ended. What was sent over it
	// has arrived, or arrives before anything that is sent over the next one. The caller connects again. What it has registered
	// for the peer with the previous Route is of no use to the peer, and neither is what messages of the peer before this event
	// have named. Reads and Writes that have not ended end with ErrNotSupported, before the event or after it.
	Rerouted
)

// Event is filled in by [Domain.Poll].
type Event struct {
	Kind  EventKind
	Peer  int32
	Token uint64
	// Data is the header and payload of a Message. It belongs to the domain and is valid until the next Poll or Arm.
	Data []byte
	Err  error
}

// Router is an optional interface of a domain that combines several domains, each of which reaches some of the peers.
type Router interface {
	// Route returns the domain that reaches peer; it changes only with the event Rerouted. Its Caps hold
	// for the peer, and memory that the peer reads or writes is registered with it. It is polled, armed and closed through the
	// combined domain.
	Route(peer int) Domain
	// Routes returns all domains that Route may return.
	Routes() []Domain
}

// RetransmitCounter is an optional interface of a domain that counts retransmissions.
type RetransmitCounter interface {
	// Retransmits returns the number of packets that were sent again so far, or of messages for a transport that does not see
	// packets. It may lag behind by seconds.
	Retransmits() uint64
}

// ReconnectCounter is an optional interface of a domain that makes broken connections again.
type ReconnectCounter interface {
	// Reconnects returns how many connections to peers were made again so far, and how often bytes that a peer had sent arrived
	// changed, which is also a reason to make a connection again.
	Reconnects() (connections, changed uint64)
}

// MultiRail is an optional interface of a domain that can reach a peer over several devices, its rails.
type MultiRail interface {
	// Rails returns the names of this process's devices, at least one. They are constant. Rail i of this process is connected to
	// rail i of each peer.
	Rails() []string
	// WithRail returns an endpoint like ep, except that Read and Write prefer one rail instead of choosing rails themselves.
	// A transfer that cannot use that rail uses others. Calls follow the rules of the domain's methods. It allocates only at
	// the first call for a peer.
	WithRail(ep Endpoint, rail int) Endpoint
}

// SharedMemory is an optional interface of a domain whose peers can share memory. Like the domain's methods, these are called by
// one goroutine at a time.
type SharedMemory interface {
	// Segment maps bytes of zeroed memory, of which none are allocated yet, at every one of peers, which must be sorted, contain
	// Self, and be the same at each caller. The same holds for id, which is used for one segment at a time. Segment does not block:
	// it returns ErrAgain until enough of the others have joined, and the caller polls and calls again with the same arguments.
	// Meanwhile the first of peers must not sleep. The others may, after Arm and one more call; they are woken in time. Segment may
	// fail at some callers and succeed at others; they must agree on the outcome among themselves.
	Segment(id uint64, peers []int, bytes int) (Segment, error)
	// Wake wakes peer if it sleeps after Arm. Stores to a segment before the call are visible to the woken peer, which
	// must check the words that it waits for once more after Arm and before it sleeps.
	Wake(peer int)
}

// Segment is memory mapped by several peers.
type Segment interface {
	// Bytes returns the memory, aligned to 128 bytes at least. It is valid until Close. Only what a peer has allocated may be
	// read or written: anything else may be a SIGBUS if memory is short.
	Bytes() []byte
	// Allocate allocates a part of Bytes, for all peers. It may have been allocated before. If memory is short, it returns an error.
	// Any goroutine may call it, also beside Close: then it may return ErrClosed.
	Allocate(part []byte) error
	// NeedsFence reports whether this peer, after it has stored a word in the memory, must execute a fence before it reads there
	// whether another peer sleeps. If not, Arm at the other makes this process pass a barrier. It is valid when all peers have
	// mapped the segment.
	NeedsFence() bool
	// Close unmaps it here; the memory is freed when every peer has closed it or ended.
	Close() error
}

// PeerMemory is an optional interface of a segment whose peers can copy from all of each other's memory. Its calls may
// run beside those of the domain. An error that wraps ErrNotSupported says that the system does not allow it.
type PeerMemory interface {
	// Process returns the number of this process, which the peers give to Read. It means nothing to a peer in another
	// container, and may be the number of another process there: the peers have to try it.
	Process() uint64
	// Address returns the address of b for Read by peers.
	Address(b []byte) uint64
	// Read copies len(dst) bytes at an address of a process to dst.
	Read(process uint64, dst []byte, addr uint64) error
}

// CooperativeCopier is an optional interface of a domain whose Read and Write occupy this process. Both sides of a large transfer
// then gain by copying a part of it each. In the words that they share they agree which side copies what.
type CooperativeCopier interface {
	// Words returns words of memory shared with a connected peer, zero at first, for use with sync/atomic. Each direction has
	// its own words: outbound ones for the transfers that this process sends, inbound ones for those that the peer sends. Used words
	// should be at least eight words apart. Words returns nil if the peers do not share memory.
	Words(peer int, inbound bool) []uint64
}
