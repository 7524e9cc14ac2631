package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/tcpflow"
)

// maxMismatches is how many times in a row a connection is made again because bytes were changed, without progress, before the
// peer is lost.
const maxMismatches = 8

var (
	errClosed = errors.New("its TCP connection closed unexpectedly")
	errRekey  = errors.New("its encrypted connection is to be replaced")
)

// connectionEnded is called when the connection has ended without kindShutdown from the peer.
func (e *endpoint) connectionEnded(errno unix.Errno) {
	cause := e.lastErr // an error of sending came first
	if cause == nil && errno != 0 {
		cause = e.stream.cause(errno)
	}
	if e.stream.rejected() {
		e.bytesChanged(cause)
		return
	}
	e.reconnect(cmp.Or(cause, errClosed))
}

// bytesChanged is called when bytes were changed on the way. The peer sends them again, on another connection.
func (e *endpoint) bytesChanged(cause error) {
	e.d.mismatches++
	e.mismatches++
	if e.mismatches < maxMismatches {
		e.reconnect(cause)
		return
	}
	e.markDown(fmt.Errorf("tcp: peer %d: %w: %w: %w, %d times in a row: repair or replace the network devices between the nodes",
		e.peer, fabric.ErrPeerDown, fabric.ErrCorrupt, cause, maxMismatches))
}

// reconnect drops the connection and makes it again. The peer does the same. If its process has ended, its host refuses the
// connection.
func (e *endpoint) reconnect(cause error) {
	e.dropConnection()
	if e.state != up && e.state != closing {
		return
	}
	now := e.d.now()
	e.broken, e.lastErr, e.since = cause, cause, now
	if !e.flow.InVain() {
		e.vain = 0
	} else if e.vain++; e.awaits() {
		e.since = e.flow.Since()
	}
	e.nextAddr, e.backoff, e.giveUpAt = 0, 0, e.since.Add(e.d.timeout)
	switch {
	case now.After(e.giveUpAt):
		if stall := e.flow.Cause(); stall != nil {
			cause = fmt.Errorf("%w; %w", cause, stall)
		}
		e.markDown(fmt.Errorf("tcp: peer %d: %w: nothing has arrived there for %v over %d connections, the last of which ended: %w",
			e.peer, fabric.ErrPeerDown, e.d.timeout, e.vain+1, cause))
		return
	case e.vain > 0: // not at once, since it may end as soon as the last one
		e.backoff = min(minBackoff<<min(e.vain, 10), maxBackoff)
		e.retryAt = now.Add(e.backoff)
	case e.attempt == nil:
		e.d.dial(e)
	}
	e.d.startFastTicks()
}

// awaits reports whether the peer has to receive messages, or to send memory.
func (e *endpoint) awaits() bool { return e.out.acked != e.out.end || e.reads.waiting() > 0 }

// suspect begins to make the connection again while it still exists, because nothing has arrived for a while. A new connection
// begins without the growing delays of retransmissions. since is when something has arrived last.
func (e *endpoint) suspect(since time.Time) {
	e.broken, e.since, e.giveUpAt = errSilent, since, since.Add(e.d.timeout)
	e.nextAddr, e.backoff = 0, 0
	e.d.dial(e)
}

var errSilent = errors.New("nothing was acknowledged")

// errUnheard is added to the reason why a peer is lost, if the peer has said that nothing that it sends arrives here. This side
// cannot find that out itself: what it sends arrives.
var errUnheard = errors.New("it had connected again because nothing that it sent arrived here: does the network between the " +
	"two drop long packets (MTU)?")

// longestPacket is the most that arrives in one packet.
const longestPacket = 64 << 10

// stalled returns optionStalled if the peer is to be told that nothing that was sent arrives. After this side has ended the
// connection, the peer could not learn it any more: a reset has no reason, and then this process may have ended.
func (e *endpoint) stalled() options {
	if e.broken == errSilent || e.flow.Cause() != nil {
		return optionStalled
	}
	return 0
}

// noteStalls notes whether this side has told the peer (here), and the peer this side (there), that nothing that it sends
// arrives.
func (e *endpoint) noteStalls(here, there bool) {
	e.told, e.unheard = here, time.Time{}
	if there {
		e.unheard = e.d.now()
	}
}

// isUnheard reports whether the peer has said that nothing that it sends arrives. That holds for two timeouts: within one, the
// peer says it again or ends the connection.
func (e *endpoint) isUnheard() bool {
	return !e.unheard.IsZero() && e.d.now().Sub(e.unheard) < 2*e.d.timeout
}

// observe is Observe of the flow. What the peer has said is void when a long packet of it has arrived.
func (e *endpoint) observe(s *tcpflow.Sample, now time.Time, quiet time.Duration) (stalled time.Duration) {
	stalled = e.flow.Observe(s, now, quiet)
	if e.flow.Received() >= longestPacket {
		e.unheard = time.Time{}
	}
	return stalled
}

// notReached reports the peer as lost because nothing that was sent over a connection, or over those before, has arrived.
func (e *endpoint) notReached() {
	e.unreached = true
	// The connection is reset, since its end would wait behind what does not arrive, and the peer would not notice it.
	reset := unix.SetsockoptLinger(e.stream.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	e.d.noteError(os.NewSyscallError("setsockopt SO_LINGER", reset))
	e.markDown(fmt.Errorf("tcp: peer %d: %w: nothing has arrived there for %v: %w", e.peer, fabric.ErrPeerDown, e.d.timeout,
		e.flow.Cause()))
}

// trust ends suspect: the peer's kernel has acknowledged something.
func (e *endpoint) trust() {
	if e.giveUpAt.IsZero() || !e.stream.open() || e.attempt != nil && e.attempt.phase != connecting {
		return
	}
	e.giveUpAt, e.broken = time.Time{}, nil
	if e.attempt != nil {
		e.d.abortHandshake(e.attempt)
	}
}

// handleAddress handles kindAddress: where the peer listens, if this side has accepted its connection.
// It is the first frame of a client.
func (e *endpoint) handleAddress(b []byte) error {
	e.confirmed = true
	addrs, err := parseAddress(b)
	if err != nil || e.addrs != nil {
		return err
	}
	if addrs, err = dialOrder(e.d.ifaces, addrs); err == nil { // otherwise only the peer can connect
		e.addrs = addrs
	}
	return nil
}

// refused reports whether err, of a connection attempt to the address e.addrs[i], says that the peer's process has ended: the
// host at the other end of the last connection refuses another one.
func (e *endpoint) refused(i int, err error) bool {
	return e.agreed && errors.Is(err, unix.ECONNREFUSED) && i < len(e.addrs) && e.addrs[i].Addr() == e.path
}

// countRefusal counts a connection attempt that failed because a host refused it.
func (e *endpoint) countRefusal(err error) {
	if errors.Is(err, unix.ECONNREFUSED) {
		e.refusals++
	}
}

// refusedEverywhere reports whether in this round every address of the peer has refused a connection. Then the peer's process
// has ended, since it listened when it published them. A refusal by some of them says nothing: another host may have the same
// address in a private network.
func (e *endpoint) refusedEverywhere() bool { return len(e.addrs) > 0 && e.refusals == len(e.addrs) }

// lost reports the peer as lost. err is the error of the last attempt to connect.
func (e *endpoint) lost(err error) {
	reason := e.lostReason(err)
	if e.isUnheard() {
		reason = fmt.Errorf("%w; %w", reason, errUnheard)
	}
	e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, reason))
}

// lostReason returns what this side knows about the end of the connection and the attempts to make it again. A peer that has
// answered while nothing arrived is not said to be unreachable.
func (e *endpoint) lostReason(err error) error {
	if e.broken == nil && e.refusedEverywhere() {
		return errors.New("it cannot be reached: its host refuses connections, so its process has ended")
	}
	if e.broken == nil {
		return fmt.Errorf("it cannot be reached within %v: %w", e.d.timeout, cmp.Or(err, error(unix.ETIMEDOUT)))
	}
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w, and its host refuses another one", e.broken)
	}
	if err == nil || err == unix.ETIMEDOUT {
		switch stall := e.flow.Cause(); {
		case e.told && e.flow.Again() && stall != nil:
			err = fmt.Errorf("%w: %w", unix.ETIMEDOUT, stall)
		case e.isUnheard():
			err = unix.ETIMEDOUT
		default:
			err = fmt.Errorf("%w: its node is down or unreachable", unix.ETIMEDOUT)
		}
	}
	return fmt.Errorf("%w, and no other connection was made within %v: %w", e.broken, e.d.timeout, err)
}
