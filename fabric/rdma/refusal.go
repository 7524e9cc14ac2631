package rdma

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
)

// A device may refuse a connection while the job runs: it has no room for another queue pair, no more memory can be locked, or
// its firmware does not answer. Every call that fails while a connection is set up is a refusal, whatever its error is. Errors
// have other meanings in other drivers, and a call on this device tells nothing about the peer. Events of the device and its
// completion queues tell that it is lost.
//
// Connections of other processes end and make room, and a driver may be interrupted. So the connection is tried again, see
// series.go. A process that cannot accept a REQ answers with a REJ and the reason, since one that does not answer may just
// compute.

// refused records that the device of this process refuses a connection, and schedules the next attempt. The endpoint must have no
// queue pairs.
func (e *endpoint) refused(err error) {
	e.attempt.count(e.d.clock.Elapsed())
	if e.attemptRefused(err) {
		e.retryLater(liveness.RetryPause(e.retry.Failed))
	}
}

// attemptRefused is attemptFailed for an attempt that the device of this process refuses.
func (e *endpoint) attemptRefused(err error) bool {
	e.retry.Rejected = false
	return e.attemptFailed(fmt.Errorf("%w: device %s %s: %w", fabric.ErrNotSupported, e.d.rails[0].Dev.Name(), refusalText(err),
		err))
}

// refusalText says what a device does if a call fails with this error. If the kernel has no route, the device has not refused.
func refusalText(err error) string {
	if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) {
		return "has no route for the connection"
	}
	return "refuses the connection"
}

// retryLater makes a timer connect to the peer after a pause. The endpoint must have no queue pairs.
func (e *endpoint) retryLater(pause time.Duration) {
	now := e.d.clock.Elapsed()
	e.retry.pending, e.retry.reqAt = true, now+pause
	e.d.cm.addConnecting(e, now)
}

// retryPending reports whether a timer connects to the peer, so that nothing else may do so before.
func (e *endpoint) retryPending() bool {
	return e.retry.pending && e.retry.timer.IsSet() && e.isConnecting()
}

// newReason returns a datagram with a reason. number is the error number if the error has none.
func (e *endpoint) newReason(kind cm.Kind, head string, err error, number syscall.Errno) cm.Message {
	errors.As(err, &number)
	if p := (*packetsLost)(nil); errors.As(err, &p) {
		err = p.brief()
	}
	msg := e.newCM(kind, cm.QP{})
	msg.Grant, msg.Lanes, msg.Address = uint32(number), 0, cm.Reason(head, err)
	return msg
}

// reject answers a REQ that cannot be accepted.
func (e *endpoint) reject(m *cm.Message, err error) {
	msg := e.newReason(cm.REJ, "", err, syscall.ENOBUFS)
	msg.Epoch, msg.ReqQP = m.Epoch, m.Pairs[0]
	_ = e.sendDatagram(&msg) // like a datagram that is lost: the peer sends its REQ again, and asks over another transport
}

// rejected records a REJ for the REQ that was sent last. The REQ is sent again.
func (e *endpoint) rejected(m *cm.Message) {
	if e.conn.State != cm.StateREQSent || m.Epoch != e.conn.Epoch || m.ReqQP != e.conn.SelfQP {
		return
	}
	e.retry.Rejected = true
	why := m.Reason()
	e.attemptFailed(fmt.Errorf("%w: the device of the peer %s: %w", fabric.ErrNotSupported, refusalText(why), why))
}
