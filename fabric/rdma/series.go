package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

// An attempt to connect to a peer begins when queue pairs are created for it: to send a REQ, or to
// answer one. It fails
//
//   - if a call is refused that sets up the connection: by the device of this process, see
//     refusal.go, or by that of the peer, which says so in a REJ, and is asked again;
//   - or if the connection breaks.
//
// A REQ that is not answered is not a failure, since the peer may compute. A domain finds by probes
// whether its process exists, see silence.go.
//
// Failures that follow each other are a series. One of these ends it:
//
//   - what was not carried out when the last connection broke is carried out, see liveness.Unfinished, and
//     the peer has acknowledged a request that is at least as long as the shortest packet that was
//     lost, see path_mtu.go;
//   - it has acknowledged a keepalive, nothing else is in flight, and no message is missing whose
//     receive has failed;
//   - a connection has worked for as long as the heartbeat.
//
// So it makes no difference why a connection breaks. A request may fail with each of them, for
// whatever reason, while shorter or other ones are acknowledged each time.
//
// A REQ that was sent or answered does not end it, nor that one side considers the connection
// established: a device may carry out all calls but the last, each time. So each side sends a
// message when a connection is established after failures: the RTU, or a credit update.
//
// The next attempt follows after a pause, which grows with the number of failures. The series lasts
// too long after liveness.MaxFailures, or after liveness.MaxSeries if there were
// liveness.MinFailures, whichever is first: calls may take long, and a process may poll rarely.
// Then:
//
//   - If the peers were never connected, and the user of the domain has another transport (see
//     Await), the user decides. It gets all failures from Attempts, asks the peer, and does not
//     wait until the series lasts too long.
//   - If they were connected, and there is another transport, this domain hands over the peer, see
//     handover.go. If the device of only one of the two refuses, the domain of that device does it,
//     and the other one follows. If the port has no link, the device may refuse because of that;
//     then the heartbeat is the limit, as for a peer that does not answer.
//   - If there is no other transport, or it does not reach the peer, attempts go on. The peer is
//     lost if the series lasts as long as the heartbeat, and there were liveness.MaxFailures. Two
//     are enough if packets were lost: a device may send them again for long before the connection
//     breaks. A datagram tells the peer the reason; it ends the connection as well, with that
//     reason.
//
// The duration of a series is the time in which this process has polled, like the time in which a
// peer is silent: a process that was stopped has made no attempts, and its peer is not to blame for
// that. See liveness.Clock.Running.
//
// The decision is made when an attempt fails, and never while one is under way: it may succeed.

// quickBreaks is how many connections in a row that break are made again at once.
const quickBreaks = 4

// acknowledged records that a request was carried out. That may end a series of failures. For a piece, Op.Done must be set.
func (c *connRetry) acknowledged(r *posting.Request) {
	if c.Failed != 0 {
		c.countAcknowledged(r)
	}
}

// countAcknowledged does what acknowledged does during a series of failures.
func (c *connRetry) countAcknowledged(r *posting.Request) {
	switch {
	case r.Kind == posting.Message:
		c.MessageAcknowledged(r.Seq)
	case r.Kind == posting.Piece && r.Op.Oldest && r.Op.Done > r.Op.Most:
		c.TransferProgressed()
	}
	c.RequestAcknowledged(r.Bytes)
}

// countWorked ends a series of failures if the connection that breaks now has worked for a heartbeat: a new connection first
// carries what was lost. It must be called before anything else is recorded about the failure.
func (e *endpoint) countWorked() {
	if e.keepalive.End(&e.d.liveness) {
		e.retry.End()
	}
}

// attemptFailed records that an attempt has failed. It reports whether there is to be another one,
// after liveness.RetryPause if a timer begins it. Otherwise the peer is handed over or lost, or its
// endpoint has ended.
func (e *endpoint) attemptFailed(err error) bool {
	d := e.d
	if e.ended.Load() != nil || e.leaving != nil {
		return false
	}
	now, r := d.clock.Elapsed(), &e.retry
	ran := d.clock.Running(now, d.liveness.Interval)
	lasts := r.Fail(err, ran, d.liveness.Duration(int(e.keepalive.Stuck)))
	e.keepalive.Stuck = 0
	if !e.reduceMTU(lasts) && e.endSeries(lasts) {
		return false
	}
	r.reqAt = now + liveness.RetryPause(r.Failed)
	if r.timer.IsSet() {
		e.d.cm.scheduleConnecting(e)
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
func (e *endpoint) endSeries(lasts time.Duration) bool {
	d := e.d
	r, least := &e.retry, e.retry.LeastFailures()
	err := &givenUp{fmt.Sprintf("%d attempts in a row failed in %v, the last one: ", r.Failed, lasts.Round(10*time.Millisecond)),
		e.retry.explainLost(r.Why)}
	switch {
	case d.takeover.mayTakeOver(e):
		tooLong := liveness.LastsTooLong(r.Failed, lasts) || r.Failed >= least && lasts >= d.settings.Heartbeat
		if !tooLong || d.rails[0].portDown && lasts < d.settings.Heartbeat {
			return false
		}
		d.takeover.leave(e, fmt.Errorf("fabric/rdma: connect to peer %d: %w", e.peer, err))
	case r.Failed < least || lasts < d.settings.Heartbeat || e.attempt.confirmed || e.attempt.held:
		return false
	default:
		// The peer's process may exist, and small packets may reach it. If this datagram is lost,
		// its next REQ gets the same answer.
		_ = e.sendGiveUp(err)
		e.declareDown(fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	return true
}
