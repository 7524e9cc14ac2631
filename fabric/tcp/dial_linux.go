package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/tcpflow"
)

// After a round of failed attempts the next one begins after minBackoff, and after twice as long each time, up to maxBackoff.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Connect begins to connect to a peer, unless there is a connection already.
func (d *Domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if peer < 0 || peer >= len(d.peers) {
		return nil, fmt.Errorf("tcp: connect: peer %d is out of range: there are %d peers", peer, len(d.peers))
	}
	if e := d.peers[peer]; e != nil && e.state != unconnected {
		if e.conn.addrs == nil && e.state == up && peer != d.self { // it has connected to this side; later this side may have to
			if addrs, err := parseAddress(addr); err == nil {
				e.conn.addrs, _ = dialOrder(d.settings.ifaces, addrs)
			}
		}
		return e, nil
	}
	if peer == d.self {
		e := d.endpoint(peer)
		e.state = up
		return e, nil
	}
	addrs, err := parseAddress(addr)
	if err == nil {
		addrs, err = dialOrder(d.settings.ifaces, addrs)
	}
	if err != nil {
		return nil, fmt.Errorf("tcp: connect to peer %d: %w", peer, err)
	}
	e := d.endpoint(peer)
	e.state, e.conn.addrs, e.conn.since = dialing, addrs, d.now()
	e.conn.giveUpAt = e.conn.since.Add(d.settings.timeout)
	d.dial(e)
	return e, nil
}

// dial begins a connection attempt to the next address of a peer. After the last address it schedules another round.
func (d *Domain) dial(e *endpoint) {
	if e.conn.nextAddr == 0 {
		e.conn.refusals = 0
	}
	for ; e.conn.nextAddr < len(e.conn.addrs); e.conn.nextAddr++ {
		fd, err := connect(e.conn.addrs[e.conn.nextAddr])
		if err == nil {
			e.conn.attempt, err = d.startHandshake(fd, e, connecting, unix.EPOLLOUT)
		}
		if err == nil {
			e.conn.nextAddr++
			return
		}
		if e.conn.refused(e.conn.nextAddr, err) {
			e.lost(err)
			return
		}
		e.conn.countRefusal(err)
		e.conn.lastErr = err
	}
	if e.conn.refusedEverywhere() {
		e.lost(unix.ECONNREFUSED)
		return
	}
	e.conn.nextAddr = 0
	e.conn.backoff = min(max(minBackoff, 2*e.conn.backoff), maxBackoff)
	e.conn.retryAt = d.now().Add(e.conn.backoff)
	d.startFastTicks()
}

// attemptFailed is called when a client's handshake has failed and was aborted. It tries the next address.
func (d *Domain) attemptFailed(e *endpoint, err error) {
	if e.state == closed {
		return
	}
	if e.conn.refused(e.conn.nextAddr-1, err) {
		e.lost(err)
		return
	}
	e.conn.countRefusal(err)
	if e.conn.lastErr == nil || err != unix.ETIMEDOUT { // which says less
		e.conn.lastErr = err
	}
	if e.connecting() {
		d.dial(e)
	}
}

// handshakeFailed aborts a handshake that has failed. A client tries the next address. If the peer has answered, and its kernel
// does not acknowledge what followed, its process is not to blame, and the time is limited as if there were no answer. Only the
// messages of TLS are long.
func (d *Domain) handshakeFailed(hs *handshake, err error) {
	e := hs.ep
	if e != nil && hs.phase == awaitTLS {
		if s, errRead := tcpflow.Read(hs.stream.fd); errRead == nil && s.Stalls(d.now().Sub(hs.started)) { // otherwise err says enough
			err = fmt.Errorf("%w: %w", err, s.Cause())
			e.conn.giveUpAt = e.conn.since.Add(d.settings.timeout)
		}
	}
	d.abortHandshake(hs)
	if e != nil {
		d.attemptFailed(e, err)
	}
}

// checkDeadlines aborts handshakes and connection attempts that have taken too long, and begins rounds of attempts that are due.
// It reports whether any handshake or attempt is left.
func (d *Domain) checkDeadlines(now time.Time) (pending bool) {
	for _, hs := range d.attempts.handshakes {
		if hs == nil {
			continue
		}
		pending = true
		if now.After(hs.deadline) {
			if e := hs.ep; e != nil && hs.phase != connecting && e.conn.limit(d.settings.timeout).After(e.conn.giveUpAt) {
				e.conn.giveUpAt = e.conn.limit(d.settings.timeout)
			}
			d.handshakeFailed(hs, unix.ETIMEDOUT)
		}
	}
	for _, e := range d.endpoints {
		if !e.connecting() {
			continue
		}
		pending = true
		switch {
		case now.After(e.conn.giveUpAt) && (e.conn.attempt == nil || e.conn.attempt.phase == connecting):
			e.lost(e.conn.lastErr)
		case e.conn.attempt == nil && now.After(e.conn.retryAt):
			d.dial(e)
		}
	}
	return pending
}
