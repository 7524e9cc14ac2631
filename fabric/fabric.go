package fabric

import (
	"context"
	"errors"
	"fmt"
)

// Errors that carry meaning for the protocols above. Transports wrap them with what they know; test with errors.Is.
var (
	// ErrAgain says that the window to a peer is full: poll, then try again. It is returned as it is, never wrapped,
	// so the hot path may compare it with ==.
	ErrAgain = errors.New("fabric: window full")
	// ErrPeerDown says that the peer has gone: killed, cut off, or closed.
	ErrPeerDown = errors.New("fabric: peer is down")
	// ErrPeerClosed is ErrPeerDown for a peer that has closed in order.
	ErrPeerClosed = fmt.Errorf("%w: it has closed", ErrPeerDown)
	// ErrCorrupt says that a peer wrote something no correct peer writes. The endpoint is unusable afterwards.
	ErrCorrupt = errors.New("fabric: corrupt data from peer")
	// ErrClosed says that the domain or endpoint was closed here.
	ErrClosed = errors.New("fabric: closed")
	// ErrNotSupported says that this transport, kernel or machine cannot do it; the wrapping error says what it needs.
	ErrNotSupported = errors.New("fabric: not supported")
)

// Transport is one way of moving bytes. Values are immutable and hold the transport's own settings.
type Transport interface {
	// Name is the short name users type: "mem", "shm", "tcp", "rdma".
	Name() string
	// Probe reports why the transport cannot work on this machine, or nil. It leaves nothing behind.
	Probe() error
	// Open joins the set of peers. It blocks until the domain can be connected to, or ctx ends.
	Open(ctx context.Context, cfg *Config) (Domain, error)
}

// Config says which process of which set opens a domain.
type Config struct {
	// Self is this process's number, 0 <= Self < Size.
	Self int
	// Size is the number of peers, this process included.
	Size int
	// Wake is called by a domain that has no descriptor to sleep on (see [Domain.Arm]) when something arrived after
	// it was armed. It is called from any goroutine, must not block and must not call back into the domain. It may
	// come once more, late, even after Close. Nil means that the caller never sleeps.
	Wake func()
}

// Domain is one process's membership in a set of peers. See the package comment for who may call what when.
type Domain interface {
	// Addr is what a peer passes to Connect. It is opaque, constant, at most 256 bytes, and may be nil.
	Addr() []byte
	// Caps tells limits and thresholds. They are constant for the domain's life; callers keep a copy.
	Caps() Caps
	// Register makes b reachable for Read and Write by peers until Deregister. The caller keeps b alive and in place.
	// Where Caps().Direct is set it costs nothing and Deregister is not needed. Where the system has no room for more the
	// error is, by errors.Is, syscall.ENOMEM, ENOSPC or EAGAIN, and where the memory is such that it cannot be registered,
	// EFAULT, EACCES, EPERM or EOPNOTSUPP.
	Register(b []byte) (Region, error)
	// Deregister ends a registration. Registering the same bytes twice needs two calls.
	Deregister(Region) error
	// Connect returns the endpoint to a peer, the same one every time. It does not wait for the peer: until it has
	// answered, Send returns ErrAgain.
	Connect(peer int, addr []byte) (Endpoint, error)
	// Poll takes what has happened, at most len(evs), and never blocks. Data lent by the previous Poll ends here.
	// An error means that the domain itself is broken; trouble with one peer is an event.
	Poll(evs []Event) (int, error)
	// Arm prepares to sleep. If ready is true something is there already: poll again. Otherwise fd becomes readable
	// when something arrives; fd is -1 for a domain that calls Config.Wake instead. The next Poll disarms. Arm ends
	// the loans of the last Poll. A caller with a message that did not go tries once more after Arm and before it
	// sleeps; it is woken when there is room.
	Arm() (fd int, ready bool, err error)
	// Close leaves the set and frees everything. Peers learn of it as PeerDown. Every call answers ErrClosed from
	// then on; Close may be repeated.
	Close() error
}

// Endpoint is the way to one peer.
type Endpoint interface {
	// Send copies header and payload as one message, or returns ErrAgain. Their lengths together are at most
	// Caps().MaxSend; more is an error that harms nothing. The peer sees them joined in one Event.Data, also if it
	// has not connected to this side.
	Send(header, payload []byte) error
	// Stream is the largest payload for which sending at once, in several messages of Caps().Part, is faster than
	// letting the peer Read it. It depends on the way to this peer, and may change.
	Stream() int
	// Read copies len(dst) bytes from the peer's registered memory at src into dst. local is the registration that
	// covers dst, ignored where Caps().Direct is set. If done, the bytes are there; otherwise an event of kind Done
	// follows with the token.
	Read(dst []byte, local Region, src RemoteKey, token uint64) (done bool, err error)
	// Write copies src into the peer's registered memory at dst, as Read does the other way.
	Write(src []byte, local Region, dst RemoteKey, token uint64) (done bool, err error)
	// Close ends the way to this peer, which learns of it as PeerDown. What the peer still sends is dropped, and
	// every call answers ErrClosed; Close may be repeated.
	Close() error
}

// Pusher is what an endpoint offers besides that can send memory before the peer asks to Read it. Callers find it by type
// assertion, once, when they connect.
type Pusher interface {
	// Push sends header as a message, as Send does, and may send along n bytes of registered memory at src, or the first of them,
	// which the peer is expected to Read from the beginning as soon as it has seen the message: a Read that is called before the
	// next Poll finds them there, and asks for no more than the rest. Otherwise they are dropped, and a later Read asks for all.
	// So the memory stays as it is until the peer says that it needs it no more, as for any Read.
	Push(header []byte, src RemoteKey, n int) error
}

// Caps tells what a domain can do, in bytes.
type Caps struct {
	// Transport is the name of the transport. A domain that is made of several has none.
	Transport string
	// MaxSend is the largest header and payload together of one Send.
	MaxSend int
	// Eager is the largest payload for which sending at once is faster than letting the peer Read it.
	Eager int
	// Part is the payload of each message of several that go at once. 0 stands for Eager.
	Part int
	// Read and Write tell whether endpoints can do these. Where they cannot, the calls return ErrNotSupported.
	Read, Write bool
	// Direct is set where any memory of this process may be named in a RemoteKey without registration.
	Direct bool
}

// RemoteKey names memory of a peer. Add to Addr to reach further into it.
type RemoteKey struct {
	Addr uint64
	Key  uint64
}

// Region is a registration of local memory.
type Region struct {
	// Remote is what the peer needs to reach the memory.
	Remote RemoteKey
	// Local is the domain's own handle for it.
	Local uint64
}

// EventKind tells events apart.
type EventKind uint8

// The kinds of event.
const (
	// Message is a message from Peer, in Data.
	Message EventKind = iota + 1
	// Done is the end of the Read or Write with this Token; Err is nil if it succeeded.
	Done
	// PeerDown says that Peer has gone, and Err why: ErrPeerClosed, or ErrPeerDown with the reason if it was lost.
	// It is the last event of that peer; what it had sent before comes first.
	PeerDown
)

// Event is something that happened, as filled in by [Domain.Poll].
type Event struct {
	Kind  EventKind
	Peer  int32
	Token uint64
	// Data is header and payload of a Message, lent until the next Poll.
	Data []byte
	Err  error
}

// Router is what a domain offers besides that is made of several, each of which reaches some of the peers. Callers find it by
// type assertion, once, at set-up.
type Router interface {
	// Route returns the domain that reaches peer, and that is constant. Its Caps are those that hold for the peer, and what the
	// peer reads or writes is registered there. It is polled, armed and closed through the domain that is made of it.
	Route(peer int) Domain
	// Routes returns all that Route may return.
	Routes() []Domain
}

// Resender is what a domain offers besides that knows how much it had to send again. Callers find it by type assertion, once, at
// set-up.
type Resender interface {
	// Resent is how many packets, or messages where it sees no packets, were sent again so far. It may lag behind by seconds.
	Resent() uint64
}

// Railer is what a domain offers besides that may reach a peer over several devices. Callers find it by type assertion, once,
// at set-up.
type Railer interface {
	// Rails are the names of this process's devices, at least one. They are constant. The one with number i, or rail, reaches
	// that with the same number at the peer.
	Rails() []string
	// Over returns the way to a peer, given its endpoint, by which Read and Write take one rail in place of those that suit them.
	// It is a preference: a transfer for which that rail cannot be had takes others. All else is that of the endpoint. It is
	// called like the domain's methods, and allocates only when it is called first for a peer.
	Over(ep Endpoint, rail int) Endpoint
}

// Sharer is what a domain offers besides where its peers share memory. Callers find it by type assertion, once, at
// set-up. Like the domain's methods, these are called by one goroutine at a time.
type Sharer interface {
	// Segment maps bytes of zeroed memory at every one of peers, which must be sorted, contain Self, and be the same at
	// each caller; so must id, which is used for one segment at a time. It does not block: until the others have joined
	// as far as is needed it returns ErrAgain, and the caller polls and calls again with the same arguments. The first of
	// peers must not sleep meanwhile; the others may, after Arm and one more call: they are woken when it is time. Whether
	// it succeeded may differ between the callers; they agree on that among themselves.
	Segment(id uint64, peers []int, bytes int) (Segment, error)
	// Ring wakes peer if it sleeps after Arm. Stores to a segment made before it are visible to the woken peer,
	// which looks at what it waits for once more after Arm and before it sleeps.
	Ring(peer int)
}

// Segment is memory mapped by several peers.
type Segment interface {
	// Bytes is the memory, aligned to 128 bytes at least. It is valid until Close.
	Bytes() []byte
	// Close unmaps it here; the memory is freed when every peer has closed it or ended.
	Close() error
}

// Pairer is what a domain offers besides where a Read or Write occupies this process, so that both sides of a large
// transfer gain by sharing the work. The words are where they agree who does what. Callers find it by type
// assertion, once, at set-up.
type Pairer interface {
	// Words returns words of memory shared with a connected peer, zero at first, for use with sync/atomic: its own
	// set for each direction, outbound for the transfers that this process offers and inbound for those that the
	// peer offers. Each used word should be at least eight from the next. Nil if the peers are not connected that
	// way.
	Words(peer int, inbound bool) []uint64
}
