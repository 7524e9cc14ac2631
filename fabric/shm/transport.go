package shm

import (
	"context"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
)

// Transport is the shared memory of one node. See the package comment.
type Transport struct {
	// Local are the peers on this node, ascending, the one that opens included. Others cannot be connected to.
	Local []int
	// Key is known to the peers of this job and to nobody else. Names of sockets are derived from it, and it is
	// what the peers know each other by.
	Key [32]byte
	// Tracer is the process whose descendants the peers are. It may trace them where Yama restricts that; 0 names none.
	Tracer int
	// Stream is the largest payload in bytes that goes through the ring in several messages rather than by a read. 0 means
	// [StreamNear], or [StreamFar] to a peer whose core has shown to be far away and to those to which no more large rings lead.
	Stream int

	fenced bool // does without membarrier, as kernels without it do
}

// Payloads up to which two copies through the ring, made at the same time, are faster than one by the kernel. To a core that is
// near they are at any length, and no slower where the receiver is late and copies once more, but then they take as much of its
// memory.
const (
	StreamNear = 4 << 20
	StreamFar  = maxPayload // to a core that is far away
)

// Caps returns the limits of any domain.
func (t *Transport) Caps() fabric.Caps {
	return fabric.Caps{
		Transport: transports.Shm.String(), MaxSend: maxPayload + maxHeader, Eager: maxPayload,
		Read: true, Write: true, Direct: true,
	}
}

// The largest message.
const (
	maxPayload = 32 << 10
	maxHeader  = 64
)

// A ring takes memory as it is used. It begins with what two cores keep in their first caches, enough for short messages; the
// first that does not fit brings it what the largest needs. A ring that carries many long ones gets room for twice a
// second-level cache: there the lines of long messages have gone out of both when they are used again, and that is where they
// are written and read fastest. Of these a peer has few at a time.
const (
	shortSpace = 16 << 10
	longSpace  = 128 << 10
	wideSpace  = 2 << 20
	wideAfter  = 32 // long messages
	wideRings  = 8
)

// Name is "shm".
func (t *Transport) Name() string { return transports.Shm.String() }

// Probe reports whether this system has what it takes.
func (t *Transport) Probe() error { return probe() }

// Open joins the peers in t.Local. It returns when the segment is mapped; peers may still be on their way.
func (t *Transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if !slices.Contains(t.Local, cfg.Self) || !slices.IsSorted(t.Local) {
		return nil, fmt.Errorf("shm: peer %d is not among %v", cfg.Self, t.Local)
	}
	if t.Stream < 0 {
		return nil, fmt.Errorf("shm: Stream is %d, and must not be negative", t.Stream)
	}
	if err := probe(); err != nil {
		return nil, err
	}
	return open(ctx, t, cfg)
}
