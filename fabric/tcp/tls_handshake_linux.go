package tcp

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// tlsProtocol names this protocol within TLS.
const tlsProtocol = "ibrun-tcp/1"

// tlsHandshake is the handshake of TLS on a connection. Package crypto/tls offers it as a call that blocks. So it has a
// goroutine, which runs only while the goroutine that polls waits for it: from one missing input to the next. The two never run
// at the same time, and share everything that Domain.mu guards. The scheduler switches between them directly, so the handshake
// depends neither on an idle processor nor on the runtime's poller, which would notice input only now and then while ranks poll.
type tlsHandshake struct {
	resume  chan struct{} // lets the goroutine run
	paused  chan struct{} // the goroutine waits, or has ended
	stop    bool          // the goroutine is to end
	ended   bool          // the goroutine has ended
	stream  *tlsStream
	binding []byte
	err     error
}

// encrypted reports whether the handshake continues over TLS: both sides demand it, and agree on all other settings as well.
func (t *transcript) encrypted() bool {
	return t.options.settings() == t.hello.options.settings() && t.options&optionEncrypt != 0
}

// startTLS begins the handshake of TLS, which f performs.
func (d *Domain) startTLS(hs *handshake, f func(net.Conn) (*tls.Conn, []byte, error)) error {
	// Without it the kernel holds the proof back until the peer has acknowledged the end of the handshake of TLS, 40 ms later.
	if err := unix.SetsockoptInt(hs.stream.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	x := &tlsHandshake{resume: make(chan struct{}), paused: make(chan struct{})}
	link := &tlsLink{d: d, fd: hs.stream.fd, handshake: x}
	x.stream = &tlsStream{link: link, pending: true}
	hs.tls, hs.phase = x, awaitTLS
	go func() {
		x.stream.conn, x.binding, x.err = f(link)
		x.ended = true
		close(x.paused)
	}()
	<-x.paused
	return d.continueTLS(hs)
}

// run lets the goroutine run until it needs more input, or has ended.
func (x *tlsHandshake) run() {
	x.resume <- struct{}{}
	<-x.paused
}

// await is called by the goroutine. It blocks until there may be input, and returns an error if the goroutine is to end.
func (x *tlsHandshake) await() error {
	if !x.stop {
		x.paused <- struct{}{}
		<-x.resume
	}
	if x.stop {
		return net.ErrClosed
	}
	return nil
}

// abort ends the goroutine.
func (x *tlsHandshake) abort() {
	if x.stop = true; !x.ended {
		x.run()
	}
	x.stream.link.release()
}

// stepTLS handles input during the handshake of TLS.
func (d *Domain) stepTLS(hs *handshake) error {
	hs.tls.run()
	return d.continueTLS(hs)
}

// continueTLS sends what the goroutine has written, and continues with the handshake of this package if TLS is ready: the client
// sends its proof, and the server awaits it.
func (d *Domain) continueTLS(hs *handshake) error {
	x := hs.tls
	if errno := x.stream.link.flush(); errno != 0 { // it always fits into the socket's buffer
		return fmt.Errorf("handshake: %w", errno)
	}
	switch {
	case !x.ended:
		return fabric.ErrAgain
	case x.err != nil:
		return x.err
	}
	x.stream.link.handshake = nil
	hs.tls, hs.stream.tls, hs.transcript.binding = nil, x.stream, string(x.binding)
	if hs.ep != nil {
		return hs.send(awaitVerdict, hs.transcript.positionMessage(&d.settings.key, labelProof, hs.ep.framing.received))
	}
	hs.phase = awaitProof
	return d.stepHandshake(hs) // TLS may have received the proof already
}

// receiveDuringHandshake is Read of the link during the handshake. It is called by the handshake's goroutine.
func (l *tlsLink) receiveDuringHandshake(b []byte) (int, error) {
	for {
		n, errno := receive(l.fd, b)
		switch {
		case errno == unix.EAGAIN:
			if err := l.handshake.await(); err != nil {
				return 0, err
			}
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
