package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
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
	cause := e.conn.lastErr // an error of sending came first
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
	e.d.stats.mismatches++
	e.conn.mismatches++
	if e.conn.mismatches < maxMismatches {
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
	e.conn.broken, e.conn.lastErr, e.conn.since = cause, cause, now
	if !e.conn.flow.InVain() {
		e.conn.vain = 0
	} else if e.conn.vain++; e.awaits() {
		e.conn.since = e.conn.flow.Since()
	}
	e.conn.nextAddr, e.conn.backoff, e.conn.giveUpAt = 0, 0, e.conn.since.Add(e.d.settings.timeout)
	switch {
	case now.After(e.conn.giveUpAt):
		if stall := e.conn.flow.Cause(); stall != nil {
			cause = fmt.Errorf("%w; %w", cause, stall)
		}
		e.markDown(fmt.Errorf("tcp: peer %d: %w: nothing has arrived there for %v over %d connections, the last of which ended: %w",
			e.peer, fabric.ErrPeerDown, e.d.settings.timeout, e.conn.vain+1, cause))
		return
	case e.conn.vain > 0: // not at once, since it may end as soon as the last one
		e.conn.backoff = min(minBackoff<<min(e.conn.vain, 10), maxBackoff)
		e.conn.retryAt = now.Add(e.conn.backoff)
	case e.conn.attempt == nil:
		e.d.dial(e)
	}
	e.d.startFastTicks()
}

// awaits reports whether the peer has to receive messages, or to send memory.
func (e *endpoint) awaits() bool {
	return e.out.kept.acked != e.out.kept.end || e.reading.reads.waiting() > 0
}

// suspect begins to make the connection again while it still exists, because nothing has arrived for a while. A new connection
// begins without the growing delays of retransmissions. since is when something has arrived last.
func (e *endpoint) suspect(since time.Time) {
	e.conn.broken, e.conn.since, e.conn.giveUpAt = errSilent, since, since.Add(e.d.settings.timeout)
	e.conn.nextAddr, e.conn.backoff = 0, 0
	e.d.dial(e)
}

// notReached reports the peer as lost because nothing that was sent over a connection, or over those before, has arrived.
func (e *endpoint) notReached() {
	e.conn.unreached = true
	// The connection is reset, since its end would wait behind what does not arrive, and the peer would not notice it.
	reset := unix.SetsockoptLinger(e.stream.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	e.d.noteError(os.NewSyscallError("setsockopt SO_LINGER", reset))
	e.markDown(fmt.Errorf("tcp: peer %d: %w: nothing has arrived there for %v: %w", e.peer, fabric.ErrPeerDown, e.d.settings.timeout,
		e.conn.flow.Cause()))
}

// trust ends suspect: the peer's kernel has acknowledged something.
func (e *endpoint) trust() {
	if e.conn.giveUpAt.IsZero() || !e.stream.open() || e.conn.attempt != nil && e.conn.attempt.phase != connecting {
		return
	}
	e.conn.giveUpAt, e.conn.broken = time.Time{}, nil
	if e.conn.attempt != nil {
		e.d.abortHandshake(e.conn.attempt)
	}
}

// handleAddress handles kindAddress: where the peer listens, if this side has accepted its connection.
// It is the first frame of a client.
func (e *endpoint) handleAddress(b []byte) error {
	e.conn.confirmed = true
	addrs, err := parseAddress(b)
	if err != nil || e.conn.addrs != nil {
		return err
	}
	if addrs, err = dialOrder(e.d.settings.ifaces, addrs); err == nil { // otherwise only the peer can connect
		e.conn.addrs = addrs
	}
	return nil
}

// lost reports the peer as lost. err is the error of the last attempt to connect.
func (e *endpoint) lost(err error) {
	now := e.d.now()
	reason := e.conn.lostReason(err, now, e.d.settings.timeout)
	if e.conn.isUnheard(now, e.d.settings.timeout) {
		reason = fmt.Errorf("%w; %w", reason, errUnheard)
	}
	e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, reason))
}
