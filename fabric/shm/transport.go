package shm

import (
	"context"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
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
	// [StreamNear], or [StreamFar] to a peer whose core has shown to be far away.
	Stream int

	fenced bool // does without membarrier, as kernels without it do
}

// Payloads up to which two copies through the ring, made at the same time, are faster than one by the kernel, whose system
// call takes as long as copying some 20 KiB.
const (
	StreamNear = 16 << 10
	StreamFar  = 12 << 10 // to a core that is far away
)

// Caps returns the limits of any domain.
func (t *Transport) Caps() fabric.Caps {
	most := ring.MaxRecord(ringSpace)
	return fabric.Caps{Transport: "shm", MaxSend: most, Eager: most, Read: true, Write: true, Direct: true}
}

// ringSpace bounds the largest message, to a quarter. Both directions of a pair should stay in a core's own first
// cache.
const ringSpace = 16 << 10

// Name is "shm".
func (t *Transport) Name() string { return "shm" }

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
