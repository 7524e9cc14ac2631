package shm

import (
	"context"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
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

	fenced bool // does without membarrier, as kernels without it do
}

// Name is "shm".
func (t *Transport) Name() string { return "shm" }

// Probe reports whether this system has what it takes.
func (t *Transport) Probe() error { return probe() }

// Open joins the peers in t.Local. It returns when the segment is mapped; peers may still be on their way.
func (t *Transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if !slices.Contains(t.Local, cfg.Self) || !slices.IsSorted(t.Local) {
		return nil, fmt.Errorf("shm: peer %d is not among %v", cfg.Self, t.Local)
	}
	if err := probe(); err != nil {
		return nil, err
	}
	return open(ctx, t, cfg)
}
