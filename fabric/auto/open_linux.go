package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// open opens the domain of one process among several. What it depends on is the same at all processes, or known to a pair
// from each other's addresses: so both ends of a pair choose alike.
func (n Node) open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	near := n.shm()
	if len(n.Local) == cfg.Size && n.may("shm") {
		return near.Open(ctx, cfg)
	}
	var parts []part
	if n.may("shm") {
		d, err := near.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{d, "shm", func(peer int) bool { return slices.Contains(n.Local, peer) }})
	}
	if n.may("rdma") {
		d, err := n.rdma().Open(ctx, cfg)
		switch {
		case err == nil:
			parts = append(parts, part{d, "rdma", nil})
		case !n.may("tcp"):
			return nil, errors.Join(err, closeAll(parts))
		case n.Report != nil && !errors.Is(err, verbs.ErrNoDevice):
			n.Report(fmt.Sprintf("RDMA is left alone and TCP taken: %v", err))
		}
	}
	if n.may("tcp") {
		d, err := n.tcp().Open(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, closeAll(parts))
		}
		parts = append(parts, part{d, "tcp", nil})
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0].name == "shm" {
		return nil, errors.Join(fmt.Errorf("%w: %d of %d processes are on other nodes, and none of the transports %v reaches them",
			fabric.ErrNotSupported, cfg.Size-len(n.Local), cfg.Size, n.Transports), closeAll(parts))
	}
	d, err := join(cfg.Size, parts)
	if err != nil {
		return nil, errors.Join(err, closeAll(parts))
	}
	return d, nil
}

func closeAll(parts []part) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
