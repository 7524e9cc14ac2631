package rdma

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/printable"
)

// A device may refuse a connection while the job runs: it has no room for another queue pair, no more memory can be locked, or
// its firmware does not answer. Every call that fails while a connection is set up is a refusal, whatever its error is: what the
// error means differs from driver to driver, and a call that was carried out here says nothing about the peer. Whether the device
// is lost, its events and its completion queues say.
//
// Connections of other processes end and make room, and a driver may be interrupted. So the connection is tried again, at
// intervals that grow. A process that cannot accept a REQ answers with a REJ and the reason, since one that does not answer may
// just compute. If the two were never connected, package auto takes another transport. If they were, another transport takes over
// after maxRefusals attempts, see handover.go. Without another transport, the peer is lost after the heartbeat.

// refusal is why the device of this process, or that of the peer, refuses a connection.
type refusal struct {
	err   error         // nil if it does not
	since time.Duration // when it did first
}

// maxRefusals is how many attempts in a row to connect again are refused before another transport takes over: in two seconds.
const maxRefusals = 8

// setUpError is the error of a call that sets up a connection.
type setUpError struct{ err error }

func (e *setUpError) Error() string { return e.err.Error() }
func (e *setUpError) Unwrap() error { return e.err }

// isRefusal reports whether a connection has ended because a device has refused it.
func isRefusal(err error) bool {
	var s *setUpError
	return errors.As(err, &s)
}

// refuse counts a refusal.
func (r *connRetry) refuse(now time.Duration, err error) {
	if r.refusal.err == nil {
		r.refusal.since, r.refusals = now, 0
	}
	r.refusal.err = err
	r.refusals = min(r.refusals+1, maxRefusals)
}

// refused records that the device of this process refuses a connection, and schedules the next attempt. The endpoint must have no
// queue pairs.
func (d *domain) refused(e *endpoint, err error) {
	now, r := d.clock.elapsed(), &e.retry
	if r.refusal.err == nil {
		r.reqInterval = minREQInterval
	}
	e.countRequest(now)
	d.refuse(e, now, err)
	d.retryLater(e, now, r.refusal.err, r.reqInterval)
	r.reqInterval = min(2*r.reqInterval, maxREQInterval)
}

// refuse records that the device of this process refuses a connection.
func (d *domain) refuse(e *endpoint, now time.Duration, err error) {
	e.retry.rejected = false
	e.retry.refuse(now, fmt.Errorf("%w: device %s refuses the connection: %w", fabric.ErrNotSupported, d.rails[0].dev.Name(), err))
}

// retryLater makes a timer connect to the peer after a pause. The endpoint must have no queue pairs.
func (d *domain) retryLater(e *endpoint, now time.Duration, why error, pause time.Duration) {
	e.retry.err, e.retry.reqAt = why, now+pause
	d.addConnecting(e, now)
}

// retryPending reports whether a timer connects to the peer, so that nothing else may do so before.
func (e *endpoint) retryPending() bool {
	return e.retry.err != nil && e.retry.position > 0 && e.isConnecting()
}

// maxReason is how many bytes of a reason a REJ has room for, also in the shortest packets.
const maxReason = 256 - cmHeaderBytes - macBytes

// reason returns the text of an error for a REJ. Of a long one it returns the end, which names the call.
func reason(err error) []byte {
	const cut = "... "
	text := err.Error()
	if len(text) > maxReason {
		text = cut + text[len(text)-maxReason+len(cut):]
	}
	return []byte(text)
}

// reject answers a REQ that cannot be accepted.
func (d *domain) reject(e *endpoint, m *cmMessage, err error) {
	number := syscall.ENOBUFS
	errors.As(err, &number)
	msg := d.newCM(e, cmREJ, m.qps[0])
	msg.epoch, msg.grant, msg.lanes, msg.address = m.epoch, uint32(number), 0, reason(err)
	if sent := d.cm.send(d, e, &msg); sent != nil {
		d.answered(e, sent)
	}
}

// rejected records a REJ for the REQ that was sent last. The REQ is sent again.
func (d *domain) rejected(e *endpoint, m *cmMessage) {
	if e.conn.state != stateREQSent || m.epoch != e.conn.epoch || m.reqQP != e.conn.selfQP {
		return
	}
	e.retry.rejected = true
	e.retry.refuse(d.clock.elapsed(), fmt.Errorf("%w: the device of the peer refuses the connection: %w",
		fabric.ErrNotSupported, &peerRefusal{printable.Line(string(m.address)), syscall.Errno(m.grant)}))
}

// peerRefusal is the reason in a REJ.
type peerRefusal struct {
	text   string
	number syscall.Errno
}

func (e *peerRefusal) Error() string { return e.text }
func (e *peerRefusal) Unwrap() error { return e.number }

// checkRefused gives up a peer, and returns true, if connections to it were refused for too long, and no other transport is about
// to be taken.
func (d *domain) checkRefused(e *endpoint, now time.Duration) bool {
	r := &e.retry.refusal
	switch {
	case r.err == nil || e.attempt.confirmed:
		return false
	case e.retry.refusals == maxRefusals && d.mayLeave(e):
		d.leave(e, fmt.Errorf("fabric/rdma: connect to peer %d: %d attempts in %v: %w", e.peer, maxRefusals,
			(now-r.since).Round(10*time.Millisecond), r.err))
		return true
	case now-r.since < d.settings.Heartbeat:
		return false
	}
	d.declareDown(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: no connection for %v: %w", e.peer, fabric.ErrPeerDown,
		d.settings.Heartbeat, r.err))
	return true
}
