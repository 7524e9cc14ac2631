package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/verbs"
)

// open opens the domain of one process among several. The choice depends only on what is the same at all processes, and on what
// two processes know from each other's addresses, so both ends of a pair choose the same transport.
func (n Node) open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if len(n.Local) == cfg.Size && n.allows(transports.Shm) {
		return n.shm().Open(ctx, cfg)
	}
	var parts []part
	for _, t := range transports.Selectable() {
		if !n.allows(t) {
			continue
		}
		if t == transports.RDMA && n.Encrypt {
			if err := n.leaveOutRDMA(); err != nil {
				return nil, errors.Join(err, closeAll(parts))
			}
			continue
		}
		opened, err := n.openTransport(ctx, cfg, t)
		switch {
		case err == nil:
			parts = append(parts, opened...)
		case t != transports.RDMA || !n.allows(transports.TCP):
			return nil, errors.Join(err, closeAll(parts))
		case n.Report != nil && !isWithoutDevice(err):
			n.Report(fmt.Sprintf("TCP is used instead of RDMA: %v", err))
		}
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0].reaches != nil {
		return nil, errors.Join(fmt.Errorf("%w: %d of %d processes are on other nodes, and none of the transports %v reaches them",
			fabric.ErrNotSupported, cfg.Size-len(n.Local), cfg.Size, n.Transports), closeAll(parts))
	}
	d, err := combine(cfg, parts, &n)
	if err != nil {
		return nil, errors.Join(err, closeAll(parts))
	}
	return d, nil
}

// openTransport opens the domains of a transport: one, or for RDMA one in each subnet in which a device can be used.
func (n Node) openTransport(ctx context.Context, cfg *fabric.Config, t transports.Transport) ([]part, error) {
	if t != transports.RDMA {
		d, err := n.transport(t).Open(ctx, cfg)
		return []part{{Domain: d, name: t.String(), reaches: n.reaches(t)}}, err
	}
	subnets, err := n.rdma().PerSubnet()
	if err != nil {
		return nil, err
	}
	var parts []part
	var errs []error // of subnets none of whose devices can be used
	for _, subnet := range subnets {
		d, err := subnet.Open(ctx, cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parts = append(parts, part{Domain: d, name: t.String()})
	}
	if len(parts) == 0 {
		err := errs[0]
		for _, next := range errs[1:] { // errors.Join would make several lines
			err = fmt.Errorf("%w; %w", err, next)
		}
		return nil, err
	}
	if n.Report != nil {
		for _, err := range errs {
			n.Report(fmt.Sprintf("one RDMA device is not used, but another is: %v", err))
		}
	}
	return parts, nil
}

// leaveOutRDMA reports that RDMA is not used because it does not encrypt. It returns an error if TCP must not be used either.
func (n Node) leaveOutRDMA() error {
	if !n.allows(transports.TCP) {
		return errNotEncrypted
	}
	if n.Report != nil && !isWithoutDevice(n.rdma().Probe()) {
		n.Report("TCP is used instead of RDMA, which does not encrypt (--encrypt)")
	}
	return nil
}

// isWithoutDevice reports whether the machine has no RDMA device. An error that names a device is that of a call or of a setting.
func isWithoutDevice(err error) bool {
	var none *verbs.Error
	var named *rdma.DeviceError
	return errors.As(err, &none) && none.Kind == verbs.ErrNoDevice && none.Device == "" && !errors.As(err, &named)
}

// reaches returns the function that reports whether t can reach a peer, nil if it can reach every peer that has it.
func (n Node) reaches(t transports.Transport) func(peer int) bool {
	if t == transports.Shm {
		return func(peer int) bool { return slices.Contains(n.Local, peer) }
	}
	return nil
}

func closeAll(parts []part) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
