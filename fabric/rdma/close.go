package rdma

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// closeTimeout is how long Close waits until the peers have acknowledged what was sent.
const closeTimeout = 2 * time.Second

func (d *domain) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	for _, e := range d.eps {
		if e == nil {
			continue
		}
		if e.ended.CompareAndSwap(nil, &errDomainClosed) {
			e.discarding = true
			if e.conn.state == stateEstablished || e.conn.state == stateREPSent {
				d.sendControl(e, kindDREQ)
			} else if e.conn.state == stateREQSent {
				d.trySendCM(e, cmDREQ, qpInfo{})
			}
		}
	}
	err := d.awaitDisconnects()
	return errors.Join(err, d.release())
}

// awaitDisconnects blocks until the peers have acknowledged everything that was sent, the DREQs included, or for closeTimeout.
func (d *domain) awaitDisconnects() error {
	d.loopback.clear()
	for end := time.Now().Add(closeTimeout); ; {
		waits := false
		for _, e := range d.eps {
			waits = waits || e != nil && (e.disconnect == disconnectDue || e.disconnect == disconnectSent)
		}
		if !waits || time.Now().After(end) {
			break
		}
		d.releaseBorrowed()
		if err := d.progressAll(); err != nil {
			if errors.Is(err, verbs.ErrDeviceLost) {
				return nil
			}
			return err
		}
		for d.events.len() > 0 {
			if ev := d.events.take(); ev.kind == fabric.Message {
				d.freeRecvSlot(ev.ep, ev.slot)
			}
		}
		d.ringDeferred()
		runtime.Gosched()
	}
	for _, e := range d.eps {
		if e != nil && (e.disconnect == disconnectDue || e.disconnect == disconnectSent) {
			d.trySendCM(e, cmDREQ, qpInfo{})
		}
	}
	return nil
}

// release closes the devices and frees the memory.
func (d *domain) release() error {
	var errs []error
	d.doorbells.timer.Stop()
	if d.waker != nil {
		errs = append(errs, d.waker.close())
	}
	for _, r := range d.rails {
		if err := r.dev.Close(); err != nil && !errors.Is(err, verbs.ErrDeviceLost) {
			errs = append(errs, fmt.Errorf("fabric/rdma: %w", err))
		}
	}
	d.recvs.unmap()
	d.sends.unmap()
	for _, mem := range []*[]byte{&d.cm.mem, &d.regions.rows, &d.keyReads.mem} {
		if *mem != nil {
			unmapMemory(*mem)
			*mem = nil
		}
	}
	return errors.Join(errs...)
}
