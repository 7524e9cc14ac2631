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
	// clientTimeoutFactor times Transport.Timeout is how long the connecting side waits for the handshake, once it is connected.
	// The other process may be stopped for a while, or may not have polled yet.
	clientTimeoutFactor = 4
)

// phase is what a handshake waits for.
type phase uint8

const (
	connecting     phase = iota // client: the kernel to connect
	awaitHello                  // server: hello
	awaitChallenge              // client: challenge
	awaitProof                  // server: proof
	awaitVerdict                // client: verdict
)

// messageBytes is the length of the message that a phase waits for.
var messageBytes = [...]int{awaitHello: helloBytes, awaitChallenge: challengeBytes, awaitProof: macBytes, awaitVerdict: macBytes}

// handshake is a connection that is not authenticated yet. The client is the side that connects, the server the side that
// accepts.
type handshake struct {
	fd         int
	slot       int       // index in Domain.handshakes
	ep         *endpoint // client: the peer; server: nil
	phase      phase
	transcript transcript
	received   int              // bytes in buf, of the next message
	buf        [helloBytes]byte // the next message
	started    time.Time
	deadline   time.Time
}

// startHandshake adds a connection to the handshakes. e is nil for a connection that was accepted.
func (d *Domain) startHandshake(fd int, e *endpoint, p phase, events uint32) (*handshake, error) {
	now := time.Now()
	hs := &handshake{fd: fd, ep: e, phase: p, started: now, deadline: now.Add(min(handshakeTimeout, d.timeout))}
	hs.slot = slices.Index(d.handshakes, nil)
	if hs.slot < 0 {
		hs.slot = len(d.handshakes)
		d.handshakes = append(d.handshakes, nil)
	}
	if err := d.epollCtl(unix.EPOLL_CTL_ADD, fd, events, tagHandshake, hs.slot); err != nil {
		return nil, errors.Join(err, closeFD(fd))
	}
	d.handshakes[hs.slot] = hs
	if e == nil {
		d.unauthenticated++
	}
	d.startFastTicks()
	return hs, nil
}

// removeHandshake removes a handshake and leaves its socket open.
func (d *Domain) removeHandshake(hs *handshake) {
	d.handshakes[hs.slot] = nil
	if hs.ep == nil {
		d.unauthenticated--
	} else {
		hs.ep.attempt = nil
	}
}

// abortHandshake removes a handshake and closes its socket.
func (d *Domain) abortHandshake(hs *handshake) {
	d.removeHandshake(hs)
	d.noteError(closeFD(hs.fd))
}

// advanceHandshake handles events of a handshake's socket. If a client's handshake fails, it tries the next address.
func (d *Domain) advanceHandshake(hs *handshake) {
	err := d.stepHandshake(hs)
	if err == nil || err == fabric.ErrAgain || d.handshakes[hs.slot] != hs {
		return
	}
	e := hs.ep
	d.abortHandshake(hs)
	if e != nil {
		e.lastErr = err
		d.dial(e)
	}
}

// stepHandshake receives what has arrived, and handles the message if it is complete. It returns ErrAgain if it is not.
func (d *Domain) stepHandshake(hs *handshake) error {
	if hs.phase == connecting {
		return d.sendHello(hs)
	}
	n, errno := receive(hs.fd, hs.buf[hs.received:messageBytes[hs.phase]])
	switch {
	case errno == unix.EAGAIN:
		return fabric.ErrAgain
	case errno != 0:
		return errno
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
		if err := hs.transcript.parseChallenge(b, &d.key); err != nil {
			return err
		}
		hs.ep.giveUpAt = time.Now().Add(d.timeout) // the server is the peer: if the rest fails, try again
		return hs.send(awaitVerdict, hs.transcript.mac(&d.key, labelProof))
	case awaitProof:
		return d.handleProof(hs, b)
	}
	return d.handleVerdict(hs, b)
}

// send sends a message, which always fits into the socket's buffer, and sets the next phase.
func (hs *handshake) send(next phase, b []byte) error {
	n, errno := send(hs.fd, b)
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
	if err := connectResult(hs.fd); err != nil {
		return err
	}
	if err := d.epollCtl(unix.EPOLL_CTL_MOD, hs.fd, unix.EPOLLIN, tagHandshake, hs.slot); err != nil {
		return err
	}
	hs.deadline = time.Now().Add(clientTimeoutFactor * d.timeout)
	hs.transcript.hello = hello{from: uint32(d.self), to: uint32(hs.ep.peer), size: uint32(len(d.peers))}
	rand.Read(hs.transcript.hello.nonce[:])
	return hs.send(awaitChallenge, hs.transcript.helloMessage(&d.key))
}

// handleHello handles a hello on the server.
func (d *Domain) handleHello(hs *handshake, b []byte) (err error) {
	if hs.transcript, err = parseHello(b, &d.key, uint32(d.self), uint32(len(d.peers))); err != nil {
		return err
	}
	rand.Read(hs.transcript.nonce[:])
	return hs.send(awaitProof, append(hs.transcript.nonce[:], hs.transcript.mac(&d.key, labelChallenge)...))
}

// handleProof handles a proof on the server, which authenticates the client as a peer. If there is another connection of the two
// peers, or if this side's own attempt takes precedence, the verdict is labelDuplicate.
func (d *Domain) handleProof(hs *handshake, b []byte) error {
	if !hs.transcript.verify(&d.key, labelProof, b) {
		return fmt.Errorf("%w: handshake: the client does not know the secret of this job", fabric.ErrCorrupt)
	}
	e := d.endpoint(int(hs.transcript.hello.from))
	switch {
	case e.state == closed || e.state == closing:
		return fabric.ErrPeerDown
	case e.state == up, e.attempt != nil && d.self < int(e.peer): // the attempt of the lower number wins
		if err := hs.send(awaitProof, hs.transcript.mac(&d.key, labelDuplicate)); err != nil {
			return err
		}
		d.abortHandshake(hs)
		return nil
	}
	if err := hs.send(awaitProof, hs.transcript.mac(&d.key, labelAccept)); err != nil {
		return err
	}
	if e.attempt != nil {
		d.abortHandshake(e.attempt)
	}
	return d.establish(hs, e)
}

// handleVerdict handles a verdict on the client.
func (d *Domain) handleVerdict(hs *handshake, b []byte) error {
	switch {
	case hs.transcript.verify(&d.key, labelAccept, b):
		return d.establish(hs, hs.ep)
	case hs.transcript.verify(&d.key, labelDuplicate, b):
		e := hs.ep
		d.abortHandshake(hs)
		e.nextAddr = len(e.addrs) // the address is right, so do not try the others: wait for the peer's own connection
		d.dial(e)
		return nil
	}
	return fmt.Errorf("%w: handshake: not a verdict message", fabric.ErrCorrupt)
}

// establish makes an authenticated connection the connection to a peer.
func (d *Domain) establish(hs *handshake, e *endpoint) error {
	if err := setOptions(hs.fd, d.timeout, d.socketBuffer); err != nil {
		return err
	}
	if err := d.epollCtl(unix.EPOLL_CTL_MOD, hs.fd, unix.EPOLLIN, tagPeer, int(e.peer)); err != nil {
		return err
	}
	d.removeHandshake(hs)
	e.fd, e.state, e.lastErr, e.addrs = hs.fd, up, nil, nil
	d.activate(e)
	e.sendRequests()
	return nil
}
