package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// handshakeTimeout is how long the handshake of an accepted connection may take.
	handshakeTimeout = 5 * time.Second
	// maxPrecedence is how long an attempt takes precedence over one of the peer.
	maxPrecedence = time.Second
	// minAnswerTime is how long a client waits for the challenge at least.
	minAnswerTime = 250 * time.Millisecond
	// redialTimeout is how long the kernel may take to connect again.
	redialTimeout = 5 * time.Second / 2
	// clientTimeoutFactor times Transport.Timeout is how long the connecting side tries if the host of the peer accepts
	// connections. The other process may be stopped for a while, or may not have polled yet.
	clientTimeoutFactor = 4
)

// phase is what a handshake waits for.
type phase uint8

const (
	connecting     phase = iota // client: the kernel to connect
	awaitHello                  // server: hello
	awaitChallenge              // client: challenge
	awaitTLS                    // both, with encryption: the handshake of TLS
	awaitProof                  // server: proof
	awaitVerdict                // client: verdict
)

// messageBytes is the length of the message that a phase waits for.
var messageBytes = [...]int{awaitHello: helloBytes, awaitChallenge: challengeBytes, awaitProof: positionBytes,
	awaitVerdict: positionBytes}

// handshake is a connection that is not authenticated yet. The client is the side that connects, the server the side that
// accepts.
type handshake struct {
	stream     stream
	slot       int       // index in Domain.attempts.handshakes
	ep         *endpoint // client: the peer; server: nil
	phase      phase
	transcript transcript
	received   int              // bytes in buf, of the next message
	buf        [helloBytes]byte // the next message
	peer       int              // number of the client, once it has sent a valid hello; -1: not known yet
	started    time.Time
	deadline   time.Time
	tls        *tlsHandshake // in awaitTLS
}

// startHandshake adds a connection to the handshakes. e is nil for a connection that was accepted.
func (d *Domain) startHandshake(fd int, e *endpoint, p phase, events uint32) (*handshake, error) {
	now := d.now()
	hs := &handshake{stream: stream{fd: fd}, ep: e, phase: p, peer: -1, started: now,
		deadline: now.Add(d.settings.handshakeTimeout)}
	if e != nil && e.conn.agreed { // resuming: the kernel repeats its first packet after a second, and then ever later
		hs.deadline = now.Add(min(redialTimeout, d.settings.timeout/4))
	}
	hs.slot = slices.Index(d.attempts.handshakes, nil)
	if hs.slot < 0 {
		hs.slot = len(d.attempts.handshakes)
		d.attempts.handshakes = append(d.attempts.handshakes, nil)
	}
	if err := d.epollCtl(unix.EPOLL_CTL_ADD, fd, events, tagHandshake, hs.slot); err != nil {
		return nil, errors.Join(err, closeFD(fd))
	}
	d.attempts.handshakes[hs.slot] = hs
	d.startFastTicks()
	return hs, nil
}

// removeHandshake removes a handshake and leaves its socket open.
func (d *Domain) removeHandshake(hs *handshake) {
	d.attempts.handshakes[hs.slot] = nil
	if hs.ep == nil {
		d.attempts.unauthenticated.Remove(hs.stream.fd)
	} else {
		hs.ep.conn.attempt = nil
	}
}

// abortHandshake removes a handshake and closes its socket.
func (d *Domain) abortHandshake(hs *handshake) {
	d.removeHandshake(hs)
	if hs.tls != nil {
		hs.tls.abort()
	}
	d.noteError(hs.stream.close())
}

// advanceHandshake handles events of a handshake's socket. If a client's handshake fails, it tries the next address.
func (d *Domain) advanceHandshake(hs *handshake) {
	err := d.stepHandshake(hs)
	if err == nil || err == fabric.ErrAgain || d.attempts.handshakes[hs.slot] != hs {
		return
	}
	d.handshakeFailed(hs, err)
}

// stepHandshake receives what has arrived, and handles the message if it is complete. It returns ErrAgain if it is not.
func (d *Domain) stepHandshake(hs *handshake) error {
	switch hs.phase {
	case connecting:
		return d.sendHello(hs)
	case awaitTLS:
		return d.stepTLS(hs)
	}
	n, errno := hs.stream.receive(hs.buf[hs.received:messageBytes[hs.phase]])
	switch {
	case errno == unix.EAGAIN:
		return fabric.ErrAgain
	case errno != 0:
		return hs.stream.cause(errno)
	case n == 0 && hs.stream.tls != nil:
		return errors.New("closed by the peer after the handshake of TLS: another host between the two may terminate TLS")
	case n == 0:
		return errors.New("closed during the handshake, by another job or by a peer that is closing")
	}
	if hs.received += n; hs.received < messageBytes[hs.phase] {
		return fabric.ErrAgain
	}
	b := hs.buf[:hs.received]
	hs.received = 0
	switch hs.phase {
	case awaitHello:
		return d.handleHello(hs, b)
	case awaitChallenge:
		return d.handleChallenge(hs, b)
	case awaitProof:
		return d.handleProof(hs, b)
	}
	return d.handleVerdict(hs, b)
}

// send sends a message, which always fits into the socket's buffer, and sets the next phase.
func (hs *handshake) send(next phase, b []byte) error {
	n, errno := hs.stream.send(b)
	if errno == 0 && n < len(b) {
		errno = unix.EAGAIN
	}
	if errno != 0 {
		return fmt.Errorf("handshake: %w", errno)
	}
	hs.phase = next
	return nil
}

// sendHello sends the hello once the kernel has connected.
func (d *Domain) sendHello(hs *handshake) error {
	if err := connectResult(hs.stream.fd); err != nil {
		return err
	}
	if err := d.epollCtl(unix.EPOLL_CTL_MOD, hs.stream.fd, unix.EPOLLIN, tagHandshake, hs.slot); err != nil {
		return err
	}
	// A host between the peers may have accepted the connection, so try again if there is no answer.
	hs.deadline = d.now().Add(max(d.settings.timeout/4, minAnswerTime))
	hs.transcript.hello = hello{from: uint32(d.self), to: uint32(hs.ep.peer), size: uint32(len(d.peers)),
		options: d.settings.options | hs.ep.conn.stalled(), ends: d.ends(hs.stream.fd, true), session: hs.ep.conn.session}
	rand.Read(hs.transcript.hello.nonce[:])
	return hs.send(awaitChallenge, hs.transcript.helloMessage(&d.settings.key))
}

// ends returns the ends of a connection. It returns zero if they decide nothing: if no connection has checksums, or those within
// this machine have them as well.
func (d *Domain) ends(fd int, client bool) ends {
	if d.settings.checkLocal || d.settings.options&optionChecksum == 0 {
		return ends{}
	}
	return endsOf(fd, client)
}

// handleHello handles a hello on the server.
func (d *Domain) handleHello(hs *handshake, b []byte) (err error) {
	if hs.transcript, err = parseHello(b, &d.settings.key, uint32(d.self), uint32(len(d.peers))); err != nil {
		return err
	}
	hs.peer = int(hs.transcript.hello.from)
	rand.Read(hs.transcript.nonce[:])
	hs.transcript.options = d.settings.options
	if x := d.ends(hs.stream.fd, false); x != (ends{}) && x == hs.transcript.hello.ends {
		hs.transcript.options |= optionLocal
	}
	if e := d.peers[hs.peer]; e != nil {
		hs.transcript.options |= e.conn.stalled()
	}
	if err := hs.send(awaitProof, hs.transcript.challenge(&d.settings.key)); err != nil || !hs.transcript.encrypted() {
		return err
	}
	return d.startTLS(hs, d.encryptor.Server)
}

// handleChallenge handles a challenge on the client. It ends the connection that there may be, since the proof says up to
// where this side has received. If the settings of the two peers differ, both learn it: the server by the proof.
func (d *Domain) handleChallenge(hs *handshake, b []byte) error {
	if err := hs.transcript.parseChallenge(b, &d.settings.key); err != nil {
		return err
	}
	e := hs.ep
	e.dropConnection()
	now := d.now()
	here, there := hs.transcript.stalled(true)
	e.conn.noteStalls(here, there, now)
	hs.deadline = now.Add(d.settings.timeout)
	// The time without a connection counts.
	if by := e.conn.since.Add(d.settings.timeout); e.conn.agreed && by.Sub(now) > d.settings.timeout/2 {
		hs.deadline = by
	}
	e.conn.giveUpAt = hs.deadline
	if limit := e.conn.limit(d.settings.timeout); hs.deadline.After(limit) { // the server is the peer: if the rest fails, try again
		e.conn.giveUpAt = limit
	}
	if hs.transcript.encrypted() {
		return d.startTLS(hs, d.encryptor.Client)
	}
	err := hs.send(awaitVerdict, hs.transcript.positionMessage(&d.settings.key, labelProof, e.framing.received))
	if differ := hs.transcript.optionsError(true); differ != nil && err == nil {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, differ))
		return nil
	}
	return err
}

// handleProof handles a proof on the server, which authenticates the client as a peer. If there is another connection of the
// two peers, or if this side's own attempt takes precedence, the verdict is labelDuplicate. If the session has ended here, it
// is labelEnded, or labelUnreached. Otherwise the connection resumes the session, and replaces one that the client considers
// broken.
func (d *Domain) handleProof(hs *handshake, b []byte) error {
	position, ok := hs.transcript.parsePosition(b, &d.settings.key, labelProof)
	if !ok {
		return fmt.Errorf("%w: handshake: the client does not know the secret of this job", fabric.ErrCorrupt)
	}
	e := d.endpoint(int(hs.transcript.hello.from))
	if err := hs.transcript.optionsError(false); err != nil && e.state != closed {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	label := d.verdict(hs, e)
	if label != labelAccept {
		err := hs.send(awaitProof, hs.transcript.positionMessage(&d.settings.key, label, e.framing.received))
		d.abortHandshake(hs)
		return err
	}
	e.conn.session = hs.transcript.hello.session
	if err := hs.send(awaitProof, hs.transcript.positionMessage(&d.settings.key, labelAccept, e.framing.received)); err != nil {
		return err
	}
	if e.conn.attempt != nil {
		d.abortHandshake(e.conn.attempt)
	}
	return d.establish(hs, e, position)
}

// verdict returns the verdict of the server on a client that is the peer e.
func (d *Domain) verdict(hs *handshake, e *endpoint) string {
	theirs := hs.transcript.hello.session
	switch {
	case e.conn.unreached:
		return labelUnreached
	case e.state == closed, d.closed && !e.conn.agreed:
		return labelEnded
	case e.conn.agreed && e.conn.confirmed && e.conn.session != theirs:
		return labelDuplicate
	case e.conn.attempt != nil && e.conn.attempt.precedes(d.self < int(e.peer), d.now()):
		return labelDuplicate
	}
	// Without a confirmation the client may have lost the verdict, and may have agreed on another session since. Then neither side
	// has received anything.
	return labelAccept
}

// precedes reports whether this side's own attempt to connect wins over one of the peer: that of the lower number does. An
// attempt that leads nowhere does not: the kernel has not connected, or the peer has not answered for a while.
func (hs *handshake) precedes(lower bool, now time.Time) bool {
	return lower && hs.phase != connecting && now.Sub(hs.started) < maxPrecedence
}

// handleVerdict handles a verdict on the client.
func (d *Domain) handleVerdict(hs *handshake, b []byte) error {
	e := hs.ep
	if position, ok := hs.transcript.parsePosition(b, &d.settings.key, labelAccept); ok {
		e.conn.confirmed = true
		return d.establish(hs, e, position)
	}
	if _, ok := hs.transcript.parsePosition(b, &d.settings.key, labelEnded); ok {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: it has ended the connection", e.peer, fabric.ErrPeerDown))
		return nil
	}
	if _, ok := hs.transcript.parsePosition(b, &d.settings.key, labelUnreached); ok {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: it has ended the connection, because nothing that it sent has arrived here for %v: "+
			"does the network between the two drop long packets (MTU)?", e.peer, fabric.ErrPeerDown, d.settings.timeout))
		return nil
	}
	if _, ok := hs.transcript.parsePosition(b, &d.settings.key, labelDuplicate); ok {
		d.abortHandshake(hs)
		e.conn.nextAddr = len(e.conn.addrs) // the address is right, so do not try the others: wait for the peer's own connection
		d.dial(e)
		return nil
	}
	return fmt.Errorf("%w: handshake: not a verdict message", fabric.ErrCorrupt)
}

// establish makes an authenticated connection the connection to a peer. Both sides send again what the other has not received:
// here that is what follows position.
func (d *Domain) establish(hs *handshake, e *endpoint, position uint64) error {
	client := hs.ep != nil
	e.dropConnection()
	here, there := hs.transcript.stalled(client)
	e.conn.noteStalls(here, there, d.now())
	err := e.out.kept.resume(position)
	if checked := hs.transcript.checked(); err == nil && checked != e.framing.checked {
		e.framing.checked = checked
		err = e.out.kept.rewriteHeaders(checked)
	}
	if err != nil {
		d.abortHandshake(hs)
		e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
		return nil
	}
	d.removeHandshake(hs)
	e.stream = hs.stream
	if e.stream.tls != nil {
		e.stream.tls.link.ep = e
		d.addBuffered(e) // what has arrived behind the verdict
	}
	for _, other := range d.attempts.handshakes {
		if other != nil && other.ep == nil && other.peer == int(e.peer) { // older than this one, or of no use
			d.abortHandshake(other)
		}
	}
	if e.conn.agreed {
		d.stats.reconnects++
	} else {
		e.conn.agreed = true
	}
	if e.state != closing {
		e.state = up
	}
	e.conn.giveUpAt, e.conn.lastErr, e.conn.broken, e.conn.backoff = time.Time{}, nil, nil, 0
	e.conn.path = remoteIP(e.stream.fd)
	err = setOptions(e.stream.fd, d.settings.timeout, d.settings.socketBuffer)
	if err == nil {
		err = d.epollCtl(unix.EPOLL_CTL_MOD, e.stream.fd, unix.EPOLLIN, tagPeer, int(e.peer))
	}
	if err != nil {
		e.reconnect(err)
		return nil
	}
	if e.state == up {
		d.activate(e)
	}
	if client {
		e.sendControl(kindAddress, d.address)
	}
	e.sendRequests()
	if s := e.checkConnection(); s != nil {
		e.conn.flow.Begin(s, d.now()) // what was sent so far is short
	}
	if e.hasUnsent() {
		d.addUnsent(e)
		e.flush()
	}
	return nil
}
