package rdma

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/printable"
)

// A device may refuse a connection while the job runs: it has no room for another queue pair, no more memory can be locked, or
// its firmware does not answer. Every call that fails while a connection is set up is a refusal, whatever its error is. Errors
// have other meanings in other drivers, and a call on this device tells nothing about the peer. Events of the device and its
// completion queues tell that it is lost.
//
// Connections of other processes end and make room, and a driver may be interrupted. So the connection is tried again, see
// series.go. A process that cannot accept a REQ answers with a REJ and the reason, since one that does not answer may just
// compute.

// setUpError is the error of a call that sets up a connection.
type setUpError struct{ err error }

func (e *setUpError) Error() string { return e.err.Error() }
func (e *setUpError) Unwrap() error { return e.err }

// isRefusal reports whether a connection has ended because a device has refused it.
func isRefusal(err error) bool {
	var s *setUpError
	return errors.As(err, &s)
}

// refused records that the device of this process refuses a connection, and schedules the next attempt. The endpoint must have no
// queue pairs.
func (d *domain) refused(e *endpoint, err error) {
	e.countRequest(d.clock.Elapsed())
	if d.attemptRefused(e, err) {
		d.retryLater(e, liveness.RetryPause(e.retry.Failed))
	}
}

// attemptRefused is attemptFailed for an attempt that the device of this process refuses.
func (d *domain) attemptRefused(e *endpoint, err error) bool {
	e.retry.Rejected = false
	return d.attemptFailed(e, fmt.Errorf("%w: device %s %s: %w", fabric.ErrNotSupported, d.rails[0].dev.Name(), refusalText(err),
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
func (d *domain) retryLater(e *endpoint, pause time.Duration) {
	now := d.clock.Elapsed()
	e.retry.pending, e.retry.reqAt = true, now+pause
	d.addConnecting(e, now)
}

// retryPending reports whether a timer connects to the peer, so that nothing else may do so before.
func (e *endpoint) retryPending() bool {
	return e.retry.pending && e.retry.position > 0 && e.isConnecting()
}

// maxReason is how many bytes of a reason a datagram has room for, also in the shortest packets.
const maxReason = 256 - cmHeaderBytes - macBytes

// reason returns the text of an error for a datagram, after head, which must be short. Of a long one it returns the end, which
// names the call, or the status of a request.
func reason(head string, err error) []byte {
	const cut = "... "
	text := err.Error()
	if room := maxReason - len(head); len(text) > room {
		text = cut + text[len(text)-room+len(cut):]
	}
	return []byte(head + text)
}

// newReason returns a datagram with a reason. number is the error number if the error has none.
func (d *domain) newReason(e *endpoint, kind cmKind, head string, err error, number syscall.Errno) cmMessage {
	errors.As(err, &number)
	if p := (*packetsLost)(nil); errors.As(err, &p) {
		err = p.brief()
	}
	msg := d.newCM(e, kind, qpInfo{})
	msg.grant, msg.lanes, msg.address = uint32(number), 0, reason(head, err)
	return msg
}

// reject answers a REQ that cannot be accepted.
func (d *domain) reject(e *endpoint, m *cmMessage, err error) {
	msg := d.newReason(e, cmREJ, "", err, syscall.ENOBUFS)
	msg.epoch, msg.reqQP = m.epoch, m.qps[0]
	_ = d.cm.send(d, e, &msg) // like a datagram that is lost: the peer sends its REQ again, and asks over another transport
}

// rejected records a REJ for the REQ that was sent last. The REQ is sent again.
func (d *domain) rejected(e *endpoint, m *cmMessage) {
	if e.conn.state != stateREQSent || m.epoch != e.conn.epoch || m.reqQP != e.conn.selfQP {
		return
	}
	e.retry.Rejected = true
	why := m.reason()
	d.attemptFailed(e, fmt.Errorf("%w: the device of the peer %s: %w", fabric.ErrNotSupported, refusalText(why), why))
}

// peerReason is the reason in a datagram of a peer.
type peerReason struct {
	text   string
	number syscall.Errno // 0 if there is none
}

// reason returns the reason in a datagram, which another process has written.
func (m *cmMessage) reason() error {
	return &peerReason{printable.Line(string(m.address)), syscall.Errno(m.grant)}
}

func (e *peerReason) Error() string { return e.text }

func (e *peerReason) Unwrap() error {
	if e.number == 0 {
		return nil
	}
	return e.number
}
