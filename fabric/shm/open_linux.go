package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// nodeSegment is the id under which the first segment is passed around.
const nodeSegment = 0

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
		local:  slices.Clone(t.Local),
		me:     slices.Index(t.Local, cfg.Self),
		key:    t.Key,
		stream: t.Stream,
		ends:   make([]*endpoint, len(t.Local)),
		ins:    make([]*inbound, len(t.Local)),
		down:   make([]bool, len(t.Local)),
		addrs:  make([]*unix.SockaddrUnix, len(t.Local)),
		segs:   map[uint64]*pending{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.sock, err = bind(t.Key, cfg.Self); err != nil {
		return nil, err
	}
	if d.seg, err = d.nodeSegment(ctx); err != nil {
		return nil, err
	}
	n := len(d.local)
	if d.mem, err = d.seg.Map(0, n*controlBytes); err != nil {
		return nil, err
	}
	d.controls = make([]*control, n)
	for i := range d.controls {
		d.controls[i] = controlAt(d.mem, i)
	}
	d.self = d.controls[d.me]
	if err := d.introduce(t); err != nil {
		return nil, err
	}
	return d, nil
}

// nodeSegment creates the segment and passes it on, or receives it.
func (d *Domain) nodeSegment(ctx context.Context) (*ring.Segment, error) {
	n := len(d.local)
	if d.me != 0 {
		fd, err := d.sock.await(ctx, nodeSegment)
		if err != nil {
			return nil, err
		}
		seg, err := ring.Open(fd)
		if err != nil {
			drop(fd)
		}
		return seg, err
	}
	seg, err := ring.Create(segmentBytes(n))
	if err != nil {
		return nil, err
	}
	for _, peer := range d.local[1:] {
		if err := d.deliver(ctx, peer, seg.FD()); err != nil {
			return nil, errors.Join(err, seg.Close())
		}
	}
	return seg, nil
}

// deliver passes the node's segment to a peer that may not have come so far yet.
func (d *Domain) deliver(ctx context.Context, peer, fd int) error {
	to := d.address(slices.Index(d.local, peer))
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		ok, err := d.sock.sendSegment(to, nodeSegment, fd)
		if ok {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("shm: pass the segment to peer %d: %w", peer, err)
		}
		time.Sleep(pause)
	}
}

// introduce fills in this peer's control block and opens it.
func (d *Domain) introduce(t *Transport) error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err == nil {
		d.pidns = st.Ino
	}
	if t.Tracer > 0 {
		// Only a kernel with Yama knows this call, and only there it is needed.
		if err := unix.Prctl(unix.PR_SET_PTRACER, uintptr(t.Tracer), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("prctl PR_SET_PTRACER", err)
		}
	}
	d.barrier = !t.fenced && registerBarrier()
	if !d.barrier {
		d.self.fence = 1
	}
	d.self.pid = uint32(os.Getpid())
	d.self.pidns = d.pidns
	atomic.StoreUint32(&d.self.opened, 1)
	return nil
}
