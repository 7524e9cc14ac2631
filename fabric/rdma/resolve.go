package rdma

import (
	"errors"
	"sync"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
)

// An address handle needs the MAC address of the peer's host on Ethernet. The call that creates the handle asks the network for
// it. That takes microseconds if the kernel knows the host, and a second or more if the host is gone. So goroutines make the
// calls. Poll waits for a result for a short time, which is mostly enough, and only if no other call is already taking longer.
// On InfiniBand nothing is asked for, and Poll makes the call itself.

// resolver makes the destinations of datagrams.
type resolver struct {
	done       chan *resolution // those that have ended; has room for all, so that no goroutine waits
	running    int              // those that have begun, also those in done
	waiting    []*resolution    // those that have not begun, oldest first
	patience   time.Duration    // how long Poll waits for a result
	direct     bool             // Poll makes the calls, which do not block
	goroutines sync.WaitGroup
}

const (
	maxResolutions  = 16 // calls at the same time, each of which may block a thread of the operating system
	resolvePatience = time.Millisecond
)

// resolution makes one destination.
type resolution struct {
	ep       *endpoint
	revision uint16 // of the peer's address
	again    bool   // the device had no more address handles, and those of connected peers were closed
	begun    bool
	outdated bool // the device has reported a change since; the result is to be renewed: see checkHandles
	make     func() (*destination, error)
	dest     *destination // the result; its revision is that of our own address
	err      error
}

// errResolving means that the address of the peer is being resolved. What is to be sent must be sent again.
var errResolving = errors.New("the address of the peer is being resolved")

// destination returns the destination of datagrams to a peer. It makes a new one if there is none, if it is stale, or if our own
// address has changed. A stale one is returned until the new one is there. The error is errResolving if that takes longer.
func (d *domain) destination(e *endpoint) (*destination, error) {
	usable := e.dest != nil && e.dest.revision == d.revision
	switch {
	case usable && !e.dest.stale, usable && (e.resolution != nil || d.resolver.running == maxResolutions):
		return e.dest, nil // others need the goroutines more than one whose destination may be right
	case e.resolution != nil:
		return nil, errResolving
	}
	if err := d.resolve(e, false); err != nil {
		return nil, err
	}
	if usable && !d.resolver.direct {
		return e.dest, nil
	}
	for e.resolution != nil {
		r := d.resolver.await()
		if r == nil {
			return nil, errResolving
		}
		if err := d.resolved(r); err != nil {
			return nil, err
		}
	}
	return e.dest, nil
}

// resolve begins to make the destination of datagrams to a peer, or lists it to be begun later.
func (d *domain) resolve(e *endpoint, again bool) error {
	rail := d.rails[0]
	i, j, err := rail.SharedPartition(&e.addr.Rails[0])
	if err != nil {
		return destinationError(exported(err))
	}
	ud, peer, own, params := rail.UDs()[i], e.addr.Rails[0].Datagrams(j), d.revision, d.params
	r := &resolution{ep: e, revision: e.addr.Revision, again: again}
	r.make = func() (*destination, error) {
		t, err := newDestination(ud, peer, params)
		if err == nil {
			t.revision = own
		}
		return t, err
	}
	e.resolution = r
	if d.resolver.running == maxResolutions {
		d.resolver.waiting = append(d.resolver.waiting, r)
		return nil
	}
	d.beginResolution(r)
	return nil
}

// beginResolution makes the call for a resolution.
func (d *domain) beginResolution(r *resolution) {
	v := &d.resolver
	v.running++
	r.begun = true
	if v.direct {
		r.dest, r.err = r.make()
		v.done <- r
		return
	}
	v.goroutines.Go(func() {
		r.dest, r.err = r.make()
		v.done <- r
		if d.sleep.armed.Load() { // otherwise Arm finds the result, since it sets armed before it looks
			_ = d.waker.wake() // if it fails, the next Poll finds the result
		}
	})
}

// await waits for the only resolution that has begun. It returns nil if that takes longer than a moment, or if there are others.
func (v *resolver) await() *resolution {
	if v.running != 1 {
		return nil
	}
	select {
	case r := <-v.done:
		return r
	default:
	}
	t := time.NewTimer(v.patience)
	defer t.Stop()
	select {
	case r := <-v.done:
		return r
	case <-t.C:
		return nil
	}
}

// resolved takes over the result of a resolution. The error is why there is no destination: the address is not reached, or the
// device refuses, which is a setUpError. Without an error e.resolution is not nil if it is tried once more.
func (d *domain) resolved(r *resolution) error {
	v, e := &d.resolver, r.ep
	v.running--
	e.resolution = nil
	if len(v.waiting) > 0 {
		next := v.waiting[0]
		v.waiting[0] = nil // releases its memory
		if v.waiting = v.waiting[1:]; len(v.waiting) == 0 {
			v.waiting = nil
		}
		d.beginResolution(next)
	}
	usable := e.dest != nil && e.dest.revision == d.revision
	switch {
	case r.err == nil && r.revision == e.addr.Revision && r.dest.revision == d.revision:
		e.forgetDestination()
		e.dest = r.dest
		e.dest.stale = r.outdated
		return nil
	case r.err == nil: // an address has changed meanwhile
		r.dest.close()
		return d.resolve(e, false)
	case usable:
		e.dest.stale = r.outdated
		return nil
	case errors.Is(r.err, verbs.ErrLimit) && !r.again:
		d.forgetConnected()
		return d.resolve(e, true)
	}
	return destinationError(r.err)
}

// destinationError returns an error of making a destination: a setUpError, unless the address cannot be reached now.
func destinationError(err error) error {
	if errors.Is(err, verbs.ErrUnreachable) {
		return err
	}
	return &setUpError{err}
}

// handleResolved takes over the results that have arrived, and sends what waits for them.
func (d *domain) handleResolved() {
	for range len(d.resolver.done) {
		r := <-d.resolver.done // only this goroutine receives
		err, e := d.resolved(r), r.ep
		switch {
		case e.resolution != nil || e.ended.Load() != nil:
		case e.conn.State == cm.StateREPSent && err == nil:
			d.trySendCM(e, cm.REP, e.conn.PeerQP)
		case e.conn.State == cm.StateREPSent:
			d.answered(e, err)
		case e.conn.State == cm.StateREQSent && !e.attempt.held:
			now := d.clock.Elapsed()
			if err == nil {
				err = d.sendCM(e, cm.REQ, cm.QP{})
			}
			d.countREQ(e, now, err)
			if e.retry.position > 0 {
				d.scheduleConnecting(e)
			}
		}
	}
}
