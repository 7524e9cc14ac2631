package rdma

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// A device may refuse a connection while the job runs: it has no room for another queue pair, or no more memory can be locked.
// Connections of other processes end and make room, so the connection is tried again, at intervals that grow. A process that
// cannot accept a REQ answers with a REJ, since one that does not answer may just compute. A connection that is refused for as
// long as the heartbeat is given up: the peer is down. Package auto takes another transport before that.

// refusal is why the device of this process, or that of the peer, refuses a connection.
type refusal struct {
	err   error         // nil if it does not
	since time.Duration // when it did first
}

// maxRefusals is how often in a row a device may refuse a call before that counts as more than a bad moment.
const maxRefusals = 8

// isRefusal reports whether an error of package verbs means that the device works, but refuses what is asked of it.
func isRefusal(err error) bool {
	for _, kind := range [...]error{verbs.ErrLimit, verbs.ErrMemlock, verbs.ErrInvalid, verbs.ErrNotSupported, verbs.ErrPermission} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return errors.Is(err, errNoSlots)
}

// refused records that the device of this process refuses a connection, and schedules the next attempt. The endpoint must have no
// queue pairs.
func (d *domain) refused(e *endpoint, err error) {
	now, r := d.clock.elapsed(), &e.retry
	if r.refusal.err == nil {
		r.refusal.since, r.reqInterval = now, minREQInterval
	}
	e.countRequest(now)
	r.refusal.err = fmt.Errorf("%w: device %s refuses the connection: %w", fabric.ErrNotSupported, d.rails[0].dev.Name(), err)
	r.err = r.refusal.err
	r.reqAt = now + r.reqInterval
	r.reqInterval = min(2*r.reqInterval, maxREQInterval)
	d.addConnecting(e, now)
}

// refusalPending reports whether a timer repeats the attempt that the device of this process has refused.
func (e *endpoint) refusalPending() bool {
	return e.retry.refusal.err != nil && e.retry.position > 0 && e.isConnecting()
}

// reject answers a REQ that cannot be accepted.
func (d *domain) reject(e *endpoint, m *cmMessage, err error) {
	number := syscall.ENOBUFS
	errors.As(err, &number)
	msg := d.newCM(e, cmREJ, m.qps[0])
	msg.epoch, msg.grant = m.epoch, uint32(number)
	_ = d.cm.send(d, e, &msg) // like a datagram that is lost: the peer sends its REQ again
}

// rejected records a REJ for the REQ that was sent last. The REQ is sent again.
func (d *domain) rejected(e *endpoint, m *cmMessage) {
	if e.conn.state != stateREQSent || m.epoch != e.conn.epoch || m.reqQP != e.conn.selfQP {
		return
	}
	if e.retry.refusal.err == nil {
		e.retry.refusal.since = d.clock.elapsed()
	}
	e.retry.refusal.err = fmt.Errorf("%w: the device of the peer refuses the connection: %w", fabric.ErrNotSupported,
		syscall.Errno(m.grant))
}

// checkRefused declares a peer down, and returns true, if connections to it were refused for as long as the heartbeat, and no
// other transport is about to be taken.
func (d *domain) checkRefused(e *endpoint, now time.Duration) bool {
	r := &e.retry.refusal
	if r.err == nil || now-r.since < d.settings.Heartbeat || e.attempt.confirmed {
		return false
	}
	d.declareDown(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: no connection for %v: %w", e.peer, fabric.ErrPeerDown,
		d.settings.Heartbeat, r.err))
	return true
}
