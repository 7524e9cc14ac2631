package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// stream is the byte stream of a connection. Everything is sent and received by its methods. None of them blocks: if nothing can
// be moved, the error is EAGAIN.
type stream struct {
	fd  int        // -1: there is no connection
	tls *tlsStream // nil: nothing is encrypted
}

// noStream is a stream without a connection.
var noStream = stream{fd: -1}

// open reports whether there is a connection.
func (s *stream) open() bool { return s.fd >= 0 }

// send sends the beginning of b, as much as the kernel takes.
func (s *stream) send(b []byte) (int, unix.Errno) {
	if s.tls != nil {
		return s.tls.send(b)
	}
	return send(s.fd, b)
}

// sendParts sends the beginning of the parts, in their order, as much as the kernel takes. If more is true, the kernel may delay
// the end until more is sent.
func (s *stream) sendParts(parts *[maxParts][]byte, more bool) (int, unix.Errno) {
	if s.tls != nil {
		return s.tls.sendParts(parts)
	}
	return sendParts(s.fd, parts, more)
}

// receive fills the beginning of b with what has arrived. It returns 0 without an error at the end of the stream.
func (s *stream) receive(b []byte) (int, unix.Errno) {
	if s.tls != nil {
		return s.tls.receive(b)
	}
	return receive(s.fd, b)
}

// receiveParts fills a, then b, with what has arrived. Neither is empty.
func (s *stream) receiveParts(a, b []byte) (int, unix.Errno) {
	if s.tls != nil {
		return s.tls.receiveParts(a, b)
	}
	return receiveParts(s.fd, a, b)
}

// hasRecords reports whether the kernel has not taken all encrypted records.
func (s *stream) hasRecords() bool { return s.tls != nil && len(s.tls.link.out) != 0 }

// hasMore reports whether there may be input that epoll does not report.
func (s *stream) hasMore() bool { return s.tls != nil && s.tls.more }

// needsNewKey reports whether the connection should be replaced by one with another key.
func (s *stream) needsNewKey() bool { return s.tls != nil && s.tls.needsNewKey() }

// rejected reports whether what has arrived was not sent by the peer, according to TLS.
func (s *stream) rejected() bool { return s.tls != nil && s.tls.rejected }

// cause returns the reason for an error of the other methods.
func (s *stream) cause(errno unix.Errno) error {
	if s.tls != nil && s.tls.err != nil {
		return fmt.Errorf("encryption: %w", s.tls.err)
	}
	return errno
}

// close closes the connection.
func (s *stream) close() error {
	if s.tls != nil {
		s.tls.close()
	}
	err := closeFD(s.fd)
	*s = noStream
	return err
}
