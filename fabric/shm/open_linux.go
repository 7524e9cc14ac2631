package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

func probe() error {
	s, err := ring.Create(controlBytes)
	if err != nil {
		return fmt.Errorf("%w: %w", fabric.ErrNotSupported, err)
	}
	return s.Close()
}

func open(ctx context.Context, t *Transport, cfg *fabric.Config) (_ fabric.Domain, err error) {
	if len(t.Local) > maxLocal {
		return nil, fmt.Errorf("%w: %d peers on one node, at most %d", fabric.ErrNotSupported, len(t.Local), maxLocal)
	}
	d := &Domain{
		local:     slices.Clone(t.Local),
		selfIndex: slices.Index(t.Local, cfg.Self),
		caps:      t.Caps(),
		largest:   t.LargestRing(),
		stores:    t.stores(),
		endpoints: make([]*endpoint, len(t.Local)),
		inbounds:  inboundRings{from: make([]*inbound, len(t.Local))},
		down:      make([]bool, len(t.Local)),
		ended:     make([]atomic.Uint64, (len(t.Local)+63)/64),
		passing:   map[uint64]*passingSegment{},
		populate:  ring.Populate,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.openSockets(ctx, t); err != nil {
		return nil, err
	}
	if d.seg, err = d.nodeSegment(ctx); err != nil {
		return nil, err
	}
	n := len(d.local)
	if d.controlMem, err = d.seg.Map(0, n*controlBytes); err != nil {
		return nil, err
	}
	d.controls = make([]*control, n)
	for i := range d.controls {
		d.controls[i] = controlAt(d.controlMem, i)
	}
	d.self = d.controls[d.selfIndex]
	d.notified.Store(d.self)
	for i := range d.ended { // peers that have ended before that
		if d.ended[i].Load() != 0 {
			atomic.AddUint64(&d.self.changes, 1)
		}
	}
	if err := d.publishControl(t); err != nil {
		return nil, err
	}
	return d, nil
}

// publishControl fills in this peer's control block. Then it stores opened, so that a peer that loads opened as 1 sees the rest.
func (d *Domain) publishControl(t *Transport) error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err == nil {
		d.pidns = st.Ino
	}
	if t.Tracer > 0 {
		// Only kernels with Yama know this call, and only they need it.
		if err := unix.Prctl(unix.PR_SET_PTRACER, uintptr(t.Tracer), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("prctl PR_SET_PTRACER", err)
		}
	}
	d.canBarrier = !t.fenced && registerBarrier()
	if !d.canBarrier {
		d.self.needsFence = 1
	}
	d.self.pid = uint32(os.Getpid())
	d.self.pidns = d.pidns
	atomic.StoreUint32(&d.self.opened, 1)
	return nil
}
