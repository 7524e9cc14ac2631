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
		if e.addrs == nil && e.state == up && peer != d.self { // it has connected to this side; later this side may have to
			if addrs, err := parseAddress(addr); err == nil {
				e.addrs, _ = dialOrder(d.ifaces, addrs)
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
		addrs, err = dialOrder(d.ifaces, addrs)
	}
	if err != nil {
		return nil, fmt.Errorf("tcp: connect to peer %d: %w", peer, err)
	}
	e := d.endpoint(peer)
	e.state, e.addrs, e.since = dialing, addrs, d.now()
	e.giveUpAt = e.since.Add(d.timeout)
	d.dial(e)
	return e, nil
}

// dial begins a connection attempt to the next address of a peer. After the last address it schedules another round.
func (d *Domain) dial(e *endpoint) {
	if e.nextAddr == 0 {
		e.refusals = 0
	}
	for ; e.nextAddr < len(e.addrs); e.nextAddr++ {
		fd, err := connect(e.addrs[e.nextAddr])
		if err == nil {
			e.attempt, err = d.startHandshake(fd, e, connecting, unix.EPOLLOUT)
		}
		if err == nil {
			e.nextAddr++
			return
		}
		if e.refused(e.nextAddr, err) {
			e.lost(err)
			return
		}
		e.countRefusal(err)
		e.lastErr = err
	}
	if e.refusedEverywhere() {
		e.lost(unix.ECONNREFUSED)
		return
	}
	e.nextAddr = 0
	e.backoff = min(max(minBackoff, 2*e.backoff), maxBackoff)
	e.retryAt = d.now().Add(e.backoff)
	d.startFastTicks()
}

// attemptFailed is called when a client's handshake has failed and was aborted. It tries the next address.
func (d *Domain) attemptFailed(e *endpoint, err error) {
	if e.state == closed {
		return
	}
	if e.refused(e.nextAddr-1, err) {
		e.lost(err)
		return
	}
	e.countRefusal(err)
	if e.lastErr == nil || err != unix.ETIMEDOUT { // which says less
		e.lastErr = err
	}
	if e.connecting() {
		d.dial(e)
	}
}

// limit returns when the peer is lost at the latest, if its host accepts connections and its process does not answer.
func (e *endpoint) limit() time.Time { return e.since.Add(clientTimeoutFactor * e.d.timeout) }

// handshakeFailed aborts a handshake that has failed. A client tries the next address. If the peer has answered, and its kernel
// does not acknowledge what followed, its process is not to blame, and the time is limited as if there were no answer. Only the
// messages of TLS are long.
func (d *Domain) handshakeFailed(hs *handshake, err error) {
	e := hs.ep
	if e != nil && hs.phase == awaitTLS {
		if s, errRead := tcpflow.Read(hs.stream.fd); errRead == nil && s.Stalls(d.now().Sub(hs.started)) { // otherwise err says enough
			err = fmt.Errorf("%w: %w", err, s.Cause())
			e.giveUpAt = e.since.Add(d.timeout)
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
	for _, hs := range d.handshakes {
		if hs == nil {
			continue
		}
		pending = true
		if now.After(hs.deadline) {
			if e := hs.ep; e != nil && hs.phase != connecting && e.limit().After(e.giveUpAt) {
				e.giveUpAt = e.limit()
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
		case now.After(e.giveUpAt) && (e.attempt == nil || e.attempt.phase == connecting):
			e.lost(e.lastErr)
		case e.attempt == nil && now.After(e.retryAt):
			d.dial(e)
		}
	}
	return pending
}
