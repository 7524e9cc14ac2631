package rdma

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// An attempt to connect to a peer begins when queue pairs are created for it: to send a REQ, or to answer one. It fails
//
//   - if a call is refused that sets up the connection: by the device of this process, see refusal.go, or by that of the peer,
//     which says so in a REJ, and is asked again;
//   - or if the connection breaks.
//
// A REQ that is not answered is not a failure, since the peer may compute. A domain finds by probes whether its process exists,
// see silence.go.
//
// Failures that follow each other are a series. One of these ends it:
//
//   - what was not carried out when the last connection broke is carried out, see unfinished, and the peer has acknowledged a
//     request that is at least as long as the shortest packet that was lost, see path_mtu.go;
//   - it has acknowledged a keepalive, nothing else is in flight, and no message is missing whose receive has failed;
//   - a connection has worked for as long as the heartbeat.
//
// So it makes no difference why a connection breaks. A request may fail with each of them, for whatever reason, while shorter or
// other ones are acknowledged each time.
//
// A REQ that was sent or answered does not end it, nor that one side considers the connection established: a device may carry out
// all calls but the last, each time. So each side sends a message when a connection is established after failures: the RTU, or a
// credit update.
//
// The next attempt follows after a pause, which grows with the number of failures. The series lasts too long after maxFailures,
// or after maxSeries if there were minFailures, whichever is first: calls may take long, and a process may poll rarely. Then:
//
//   - If the peers were never connected, and the user of the domain has another transport (see Await), the user decides. It gets
//     all failures from Attempts, asks the peer, and does not wait until the series lasts too long.
//   - If they were connected, and there is another transport, this domain hands over the peer, see handover.go. If the device of
//     only one of the two refuses, the domain of that device does it, and the other one follows. If the port has no link, the
//     device may refuse because of that; then the heartbeat is the limit, as for a peer that does not answer.
//   - If there is no other transport, or it does not reach the peer, attempts go on. The peer is lost if the series lasts as long
//     as the heartbeat, and there were maxFailures. Two are enough if packets were lost: a device may send them again for long
//     before the connection breaks. A datagram tells the peer the reason; it ends the connection as well, with that reason.
//
// The duration of a series is the time in which this process has polled, like the time in which a peer is silent: a process that
// was stopped has made no attempts, and its peer is not to blame for that. See clock.running.
//
// The decision is made when an attempt fails, and never while one is under way: it may succeed.

const (
	minFailures   = 4
	maxFailures   = 16
	maxSeries     = 2 * time.Second
	quickBreaks   = 4                      // so many connections that break are made again at once
	maxRetryPause = 100 * time.Millisecond // between attempts, before there were maxFailures; later it is maxREQInterval
)

// countUp returns n+1, or n if that is too large.
func countUp(n int16) int16 { return n + min(1, math.MaxInt16-n) }

// lastsTooLong reports whether something has failed too often, or for too long.
func lastsTooLong(failures int16, since time.Duration) bool {
	return failures >= maxFailures || failures >= minFailures && since >= maxSeries
}

// retryPause returns how long to wait after so many failures in a row.
func retryPause(failures int16) time.Duration {
	switch {
	case failures <= 0:
		return 0
	case failures >= maxFailures:
		return maxREQInterval
	}
	return min(minREQInterval<<(failures-1), maxRetryPause)
}

// unfinished is what was not carried out when the last connection broke, and has not been since.
type unfinished struct {
	seq     uint32 // of the oldest message that was not acknowledged; valid if message is set
	message bool   // there was such a message
	// transfer: there was a transfer that had not ended. It is cleared when the oldest one, see op.oldest, gets further than over
	// any connection before. Over a connection with one lane any piece is enough, since it is never transferred again.
	transfer bool
	receive  bool // the receive of a message has failed, so the peer has to send it again
}

// endFailures ends a series.
func (e *endpoint) endFailures() {
	e.retry.failed, e.retry.lost, e.retry.unfinished = 0, 0, unfinished{}
}

// acknowledged records that a request was carried out. That may end a series of failures. For a piece, op.done must be set.
func (e *endpoint) acknowledged(r *request) {
	if e.retry.failed != 0 {
		e.countAcknowledged(r)
	}
}

// countAcknowledged does what acknowledged does during a series of failures.
func (e *endpoint) countAcknowledged(r *request) {
	t := &e.retry
	u := &t.unfinished
	switch {
	case r.kind == requestMessage && u.message:
		u.message = int32(r.seq-u.seq) < 0
	case r.kind == requestPiece && r.op.oldest && r.op.done > r.op.most:
		u.transfer = false
	}
	if r.bytes >= t.lost {
		t.lost = 0
	}
	if t.lost == 0 && !u.message && !u.transfer && !u.receive {
		e.endFailures()
	}
}

// arrived records that a message of the peer has arrived.
func (r *connRetry) arrived() {
	if r.unfinished.receive {
		r.unfinished.receive = false
	}
}

// keepaliveAcknowledged records that the peer's device has acknowledged a keepalive, and nothing else is in flight. What was sent
// before has arrived then.
func (e *endpoint) keepaliveAcknowledged() {
	if !e.retry.unfinished.receive {
		e.endFailures()
	}
}

// countWorked ends a series of failures if the connection that breaks now has worked for a heartbeat: a new connection first
// carries what was lost. It must be called before anything else is recorded about the failure.
func (e *endpoint) countWorked() {
	k := &e.keepalive
	if int(k.age)-int(k.stuck) > e.d.liveness.maxMissed {
		e.endFailures()
	}
	k.age = 0
}

// failure returns why the last attempt has failed, nil if there is no series.
func (r *connRetry) failure() error {
	if r.failed == 0 {
		return nil
	}
	return r.why
}

// isLossy reports whether the last attempt has failed because packets were lost.
func (r *connRetry) isLossy() bool { return errors.Is(r.why, verbs.StatusRetryExceeded) }

// attemptFailed records that an attempt has failed. It reports whether there is to be another one, after retryPause if a timer
// begins it. Otherwise the peer is handed over or lost, or its endpoint has ended.
func (d *domain) attemptFailed(e *endpoint, err error) bool {
	if e.ended.Load() != nil || e.leaving != nil {
		return false
	}
	now, r := d.clock.elapsed(), &e.retry
	ran := d.clock.running(now, d.liveness.interval)
	if r.failed == 0 { // the first one
		r.since = ran - d.liveness.duration(int(e.keepalive.stuck))
	}
	e.keepalive.stuck = 0
	r.failed, r.why = countUp(r.failed), err
	if lasts := ran - r.since; !d.reduceMTU(e, lasts) && d.endSeries(e, lasts) {
		return false
	}
	r.reqAt = now + retryPause(r.failed)
	if r.position > 0 {
		d.scheduleConnecting(e)
	}
	return true
}

// givenUp is why a peer was given up.
type givenUp struct {
	attempts string // text before why: how many attempts have failed, and in which time
	why      error  // why the last attempt has failed
}

func (g *givenUp) Error() string { return g.attempts + g.why.Error() }
func (g *givenUp) Unwrap() error { return g.why }

// endSeries gives up a peer, and returns true, if the series of failures lasts too long.
func (d *domain) endSeries(e *endpoint, lasts time.Duration) bool {
	r, least := &e.retry, int16(maxFailures)
	if r.isLossy() {
		least = 2
	}
	err := &givenUp{fmt.Sprintf("%d attempts in a row failed in %v, the last one: ", r.failed, lasts.Round(10*time.Millisecond)),
		e.explainLost(r.why)}
	switch {
	case d.mayLeave(e):
		tooLong := lastsTooLong(r.failed, lasts) || r.failed >= least && lasts >= d.settings.Heartbeat
		if !tooLong || d.rails[0].portDown && lasts < d.settings.Heartbeat {
			return false
		}
		d.leave(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w", e.peer, err))
	case r.failed < least || lasts < d.settings.Heartbeat || e.attempt.confirmed || e.attempt.held:
		return false
	default:
		// The peer's process may exist, and small packets may reach it. If this datagram is lost, its next REQ gets the same answer.
		_ = d.sendGiveUp(e, err)
		d.declareDown(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	return true
}
