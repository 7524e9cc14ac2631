// Package auto chooses the transport between the processes of a job: the one place that knows them all.
//
//	d, err := auto.Open(ctx, &fabric.Config{Self: 3, Size: 8}, auto.Node{Local: local, Key: secret, Tracer: agent})
//
// A process that is alone talks to itself in its own memory (fabric/mem), processes of one node share memory
// (fabric/shm).
package auto

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/fabric/shm"
)

// Node is what the choice depends on: who is where.
type Node struct {
	// Local are the peers on this node, ascending, Self included.
	Local []int
	// Key is a secret of this job.
	Key [32]byte
	// Tracer is the process whose descendants the local peers are, or 0.
	Tracer int
}

// Open opens the best domain that reaches every peer. Errors say what is missing; fabric.ErrNotSupported is among them
// where no transport reaches all.
func Open(ctx context.Context, cfg *fabric.Config, n Node) (fabric.Domain, error) {
	if cfg.Size == 1 {
		return mem.NewHub(1).Transport().Open(ctx, cfg)
	}
	if len(n.Local) != cfg.Size {
		return nil, fmt.Errorf("%w: %d of %d processes are on other nodes, and shared memory reaches one node only",
			fabric.ErrNotSupported, cfg.Size-len(n.Local), cfg.Size)
	}
	return (&shm.Transport{Local: n.Local, Key: n.Key, Tracer: n.Tracer}).Open(ctx, cfg)
}
