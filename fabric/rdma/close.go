package rdma

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// closeTimeout is how long Close waits until the peers have acknowledged what was sent; see domain.closeTimeout.
const closeTimeout = 2 * time.Second

func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	d.closed, d.stopped = true, true
	for e := range d.eps.known() {
		if e.ended.CompareAndSwap(nil, &errDomainClosed) {
			e.msgs.In.Discarding = true
			if e.peerClosing { // it waits for nothing
				continue
			}
			if e.conn.State == cm.StateEstablished || e.conn.State == cm.StateREPSent {
				e.sendControl(messages.DREQ)
			} else if e.addr.Rails != nil && e.peer != d.self {
				d.cm.notices = append(d.cm.notices, e)
			}
		}
	}
	d.awaitDisconnects()
	return d.release()
}

// awaitDisconnects blocks until the peers have acknowledged everything that was sent, the DREQs included, or for d.closeTimeout.
// It returns at once if the device is lost: the peers find by probes that this process has gone.
func (d *domain) awaitDisconnects() {
	d.events.Loopback.Clear()
	if d.takeover.lost != nil {
		return
	}
	for end := time.Now().Add(d.closeTimeout); ; {
		waits := d.cm.sendNotices()
		for e := range d.eps.known() {
			if e.disconnect == disconnectDue {
				e.trySendControl(messages.DREQ)
			}
			waits = waits || e.disconnect.isPending()
		}
		if !waits || time.Now().After(end) {
			break
		}
		d.events.Release(&d.recvs)
		if d.progressAll() != nil { // lost, or refuses what it cannot be used without
			return
		}
		d.events.Drop(&d.recvs)
		d.poster.RingDeferred()
		runtime.Gosched()
	}
	for e := range d.eps.known() {
		if e.disconnect.isPending() {
			e.trySendCM(cm.DREQ, cm.QP{})
		}
	}
}

// release closes the devices and frees the memory. All its errors are fabric.ErrNotReleased.
func (d *domain) release() error {
	var errs []error
	d.eps.stopPosting(&d.poster) // a Read or Write that follows finds that the endpoint has ended
	d.poster.Stop()
	d.cm.Close()
	d.deviceEvents.Stop()
	if err := d.sleeper.Close(); err != nil {
		errs = append(errs, fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotReleased, err))
	}
	for _, r := range d.rails {
		if err := r.Close(); err != nil && !errors.Is(err, verbs.ErrDeviceLost) {
			errs = append(errs, fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotReleased, err))
		}
	}
	d.recvs.Unmap()
	d.poster.Sends.Unmap()
	d.regions.Unmap()
	d.poster.KeyReads.Unmap()
	d.cm.Unmap()
	return errors.Join(errs...)
}
