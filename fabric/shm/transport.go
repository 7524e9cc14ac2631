package shm

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/internal/transports"
)

// Transport connects the peers of one node through shared memory. See the package comment.
type Transport struct {
	// Local lists the peers on this node in ascending order, including the one that opens. Others cannot be connected to.
	Local []int
	// Key is a secret shared by the peers of this job only. Peers without Sockets find and authenticate each other with it.
	Key [32]byte
	// Sockets provides the sockets between the peers. If it is nil, the peers exchange them in a folder for temporary files that
	// only this user can enter, and Open returns when all have come.
	Sockets Sockets
	// Tracer is the process whose descendants the peers are. It may trace them where Yama restricts that; 0 names no process.
	Tracer int
	// Stream is the largest payload in bytes that goes through the ring in several messages rather than by a Read, also where the
	// ring cannot become large. 0 means that the caller measures which of the two is faster, for payloads up to [MaxStream], and
	// begins with [FirstStream].
	Stream int
	// Ring is the largest space of a ring to a peer in bytes, rounded down to a power of two: from 128 KiB to 2 MiB, which 0 means.
	// Peers may have different values.
	Ring int
	// Stores is the kind of stores by which this peer copies contiguous payloads into rings. If SharedCores is set, Fastest is
	// Cached.
	Stores Stores
	// SharedCores says that there may be fewer cores than peers. The time of a message then depends on when its two processes
	// run, so nothing is measured. Payloads up to [MaxStream] go through the ring: the receiver often runs next on the core of
	// the sender, and finds the payload in its caches.
	SharedCores bool

	fenced bool // do without membarrier, as on kernels that lack it
}

// Stores is a kind of stores.
type Stores uint8

// The kinds of stores by which a contiguous payload of more than 4 KiB, that of a message or of a fragment, is copied into a
// ring.
const (
	// Fastest are those that prove to be faster: a sender times both kinds now and then.
	Fastest = Stores(ring.Fastest)
	// Cached are ordinary stores.
	Cached = Stores(ring.Cached)
	// NonTemporal are stores that go past the caches. They are ordinary ones on processors that have none.
	NonTemporal = Stores(ring.NonTemporal)
)

// Sockets is a launcher that has made sockets for the peers of a node, as package wakesock does.
type Sockets interface {
	// Own returns the descriptors of this process, which the caller then owns: where it receives, what leads there, and the epoll
	// set of the peers that have ended. It may be called once.
	Own(ctx context.Context) (receive, send, ended int, err error)
	// Request obtains the socket that leads to a peer, which is given by its index in Transport.Local. It does not wait: deliver
	// is called once, by any goroutine, with a descriptor that deliver then owns, or with an error.
	Request(local int, deliver func(fd int, err error)) error
	// Wake wakes a peer for a process that could not obtain its socket, or that closes before the socket has arrived.
	Wake(local int)
}

// Whether a payload goes faster by two copies through the ring, made at the same time, or by one copy of the kernel depends on
// the caches of the processor and on the distance of the two cores, so it is measured.
const (
	// FirstStream is the largest payload that goes through the ring before anything has been measured.
	FirstStream = 64 << 10
	// MaxStream is the largest payload that goes through the ring unless Stream is set: a late receiver stores the payload.
	MaxStream = 4 << 20
)

// Caps returns the limits of a domain.
func (t *Transport) Caps() fabric.Caps {
	c := fabric.Caps{
		Transport: transports.Shm.String(), MaxSend: maxPayload + maxHeader, Eager: maxPayload, Stream: t.Stream,
		Read: true, Write: true, Direct: true,
	}
	switch {
	case t.Stream > 0:
	case t.SharedCores:
		c.Stream = MaxStream
	default:
		c.Stream, c.MaxStream = FirstStream, MaxStream
	}
	return c
}

// The largest message, in bytes.
const (
	maxPayload = 32 << 10
	maxHeader  = 64
)

// Sizes of the space of a ring. A ring takes memory as it is used. It begins with what two cores keep in their first-level
// caches, enough for short messages. The first message that does not fit grows it to what the largest message needs. A ring
// that carries many long messages grows to twice a second-level cache: then both caches have evicted the lines of long messages
// before they are used again, and such lines are written and read fastest. The exact size matters little: on a processor
// whose cores have second-level caches of 1 MiB, rings of 512 KiB, 2 MiB and 4 MiB differed by a tenth, and one of 128 KiB took
// up to 1.4 times as long. A peer has few of these large rings at a time.
//
// The bounds of the tunable ShmRing in package internal/tunables are mediumSpace and largeSpace,
// and its default is largeSpace. TestTunables of package fabric/auto compares them.
const (
	smallSpace    = 16 << 10
	mediumSpace   = 128 << 10
	largeSpace    = 2 << 20
	largeAfter    = 32 // a ring grows to the largest space after so many long messages
	maxLargeRings = 8  // of one writer
)

// LargestRing returns the largest space of a ring to a peer, with the default filled in.
func (t *Transport) LargestRing() int {
	if t.Ring == 0 {
		return largeSpace
	}
	return 1 << (bits.Len(uint(t.Ring)) - 1)
}

// stores returns the kind of stores for rings.
func (t *Transport) stores() Stores {
	if t.SharedCores && t.Stores == Fastest {
		return Cached // the reader often runs on the core of the writer, and then finds the payload in its caches
	}
	return t.Stores
}

// Name returns "shm".
func (t *Transport) Name() string { return transports.Shm.String() }

// Probe returns an error that says what this system lacks, or nil.
func (t *Transport) Probe() error { return probe() }

// Open joins the peers in t.Local. It returns when the segment is mapped; other peers may not have opened yet.
func (t *Transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if !slices.Contains(t.Local, cfg.Self) || !slices.IsSorted(t.Local) {
		return nil, fmt.Errorf("shm: open: peer %d is not among the local peers %v", cfg.Self, t.Local)
	}
	switch {
	case t.Stream < 0:
		return nil, fmt.Errorf("shm: open: Stream is %d; it must not be negative", t.Stream)
	case t.Ring != 0 && (t.Ring < mediumSpace || t.Ring > largeSpace):
		return nil, fmt.Errorf("shm: open: Ring is %d; it must be 0, or %d to %d", t.Ring, mediumSpace, largeSpace)
	case t.Stores > NonTemporal:
		return nil, fmt.Errorf("shm: open: Stores is %d; there are no such stores", t.Stores)
	}
	if err := probe(); err != nil {
		return nil, err
	}
	return open(ctx, t, cfg)
}
