package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// recordBytes is the most that TLS encrypts as one record.
const recordBytes = 16 << 10

// maxSealed is how many bytes one call encrypts at most. With the overhead of their records they fit into a buffer.
const maxSealed = 12 * recordBytes

// maxSessionBytes is how many bytes are encrypted with one key. Then a new connection is made, which has a new key. TLS bounds
// what AES-GCM may encrypt with one key to 2^24.5 full records (RFC 8446, section 5.5), and crypto/tls does not change keys.
const maxSessionBytes = 1 << 38

// tlsStream is the TLS session of a connection. Its methods are those of stream. TLS runs over a link, which never blocks it:
// nothing is received if nothing has arrived, and encrypted records that the kernel does not take are kept.
type tlsStream struct {
	conn *tls.Conn
	link *tlsLink
	// more is set if the last receive ended because its buffer was full. Then conn may hold bytes that epoll knows nothing about.
	more bool
	// pending is set unless conn has said that it needs more input, and nothing was received since.
	pending bool
	// err is why the session has ended, other than by the peer or the kernel: the peer has sent a record that does not
	// authenticate, or has reported such a record.
	err error
	// rejected is set if this side has received a record that does not authenticate.
	rejected bool
}

// tlsLink is the net.Conn that TLS runs over: the socket, and the records that it has not taken yet.
type tlsLink struct {
	handshake *tlsHandshake // nil after the handshake of TLS
	d         *Domain
	ep        *endpoint // nil while the peer is not authenticated
	fd        int
	drained   bool   // the last receive has taken all that had arrived
	in        []byte // buffer of unread; nil: none
	unread    []byte // what has been received, and TLS has not read
	readErr   error  // what Read returns behind that
	out       []byte // records; nil: none
	sent      int    // the first bytes of out that have been sent
	sealed    int64  // bytes of all records
}

// errNothingArrived is the error of a read without input. TLS continues after an error that is temporary.
var errNothingArrived net.Error = nothingArrived{}

type nothingArrived struct{}

func (nothingArrived) Error() string   { return "nothing has arrived" }
func (nothingArrived) Timeout() bool   { return true }
func (nothingArrived) Temporary() bool { return true }

// Read takes what fill has received. During the handshake it blocks until something has arrived.
func (l *tlsLink) Read(b []byte) (n int, err error) {
	switch {
	case l.handshake != nil:
		return l.receiveDuringHandshake(b)
	case len(l.unread) != 0:
		n = copy(b, l.unread)
		if l.unread = l.unread[n:]; len(l.unread) == 0 {
			l.d.buffers.put(l.in)
			l.in = nil
		}
		return n, nil
	case l.readErr != nil:
		return 0, l.readErr
	}
	return 0, errNothingArrived
}

// fill receives what has arrived, for Read. It returns false if that is nothing. An error, or the end of the stream, is returned
// by the next Read. TLS is not called in vain that way, which would allocate in every poll.
func (l *tlsLink) fill() bool {
	if l.drained || l.readErr != nil {
		return false
	}
	in := l.d.buffers.get()
	n, errno := receive(l.fd, in)
	l.drained = n < len(in)
	if n > 0 {
		l.in, l.unread = in, in[:n]
		return true
	}
	l.d.buffers.put(in)
	switch errno {
	case unix.EAGAIN:
		return false
	case 0:
		l.readErr = io.EOF
	default:
		l.readErr = errno
	}
	return true
}

// Write keeps a record for flush.
func (l *tlsLink) Write(b []byte) (int, error) {
	if l.out == nil {
		l.out = l.d.buffers.get()[:0]
	}
	l.out = append(l.out, b...)
	l.sealed += int64(len(b))
	return len(b), nil
}

// The other methods of a net.Conn. TLS sets deadlines before it sends an alert, which does not block here.
func (l *tlsLink) Close() error                     { return nil }
func (l *tlsLink) LocalAddr() net.Addr              { return nil }
func (l *tlsLink) RemoteAddr() net.Addr             { return nil }
func (l *tlsLink) SetDeadline(time.Time) error      { return nil }
func (l *tlsLink) SetReadDeadline(time.Time) error  { return nil }
func (l *tlsLink) SetWriteDeadline(time.Time) error { return nil }

// flush sends records, as far as the kernel takes them. If some are left, the endpoint has something unsent.
func (l *tlsLink) flush() unix.Errno {
	for l.sent < len(l.out) {
		n, errno := send(l.fd, l.out[l.sent:])
		if errno == unix.EAGAIN && l.ep != nil {
			l.d.addUnsent(l.ep)
		}
		if errno != 0 {
			return errno
		}
		l.sent += n
	}
	l.release()
	return 0
}

// release drops the records that have not been sent.
func (l *tlsLink) release() {
	if l.out != nil {
		l.d.buffers.put(l.out)
		l.out, l.sent = nil, 0
	}
}

// drop drops everything that is kept.
func (l *tlsLink) drop() {
	l.release()
	if l.in != nil {
		l.d.buffers.put(l.in)
		l.in, l.unread = nil, nil
	}
}

// send encrypts the beginning of b.
func (s *tlsStream) send(b []byte) (int, unix.Errno) { return s.sendParts(&[maxParts][]byte{b}) }

// sendParts encrypts the beginning of the parts, and sends the records as far as the kernel takes them. It takes nothing while
// the kernel has not taken the records before.
func (s *tlsStream) sendParts(parts *[maxParts][]byte) (taken int, errno unix.Errno) {
	if errno := s.link.flush(); errno != 0 {
		return 0, errno
	}
	if taken, errno = s.seal(parts); errno != 0 {
		return 0, errno
	}
	if errno := s.link.flush(); errno != 0 && errno != unix.EAGAIN {
		return 0, errno
	}
	return taken, 0
}

// seal encrypts the beginning of the parts. They are copied behind each other first, so that short ones share a record, and so
// that memory which is not mapped any more is found before TLS reads it: the error is EFAULT then, as that of a system call.
func (s *tlsStream) seal(parts *[maxParts][]byte) (taken int, errno unix.Errno) {
	defer recoverFault(debug.SetPanicOnFault(true), &errno)
	b := s.link.d.buffers.get()
	record := b[:0:recordBytes]
	for _, p := range parts {
		p = p[:min(len(p), maxSealed-taken)]
		taken += len(p)
		for len(p) != 0 {
			n := gather(record[len(record):cap(record)], p)
			record, p = record[:len(record)+n], p[n:]
			if len(record) == cap(record) {
				if errno = s.write(record); errno != 0 {
					return 0, errno
				}
				record = record[:0]
			}
		}
	}
	if len(record) != 0 {
		errno = s.write(record)
	}
	s.link.d.buffers.put(b)
	return taken, errno
}

// write encrypts one record.
func (s *tlsStream) write(record []byte) unix.Errno {
	_, err := s.conn.Write(record)
	return s.errno(err)
}

// receive fills the beginning of b, which is not empty, with what has arrived.
func (s *tlsStream) receive(b []byte) (n int, errno unix.Errno) {
	s.link.drained = false
	for s.more = true; n < len(b); {
		if s.pending = s.pending || s.link.fill(); !s.pending {
			s.more = false
			break
		}
		k, err := s.conn.Read(b[n:])
		n += k
		switch {
		case err == nil:
		case err == errNothingArrived:
			s.pending = false
		case n != 0, err == io.EOF, err == io.ErrUnexpectedEOF:
			return n, 0 // an error that is not temporary will be returned again
		default:
			return 0, s.errno(err)
		}
	}
	if n == 0 {
		errno = unix.EAGAIN
	}
	return n, errno
}

// receiveParts fills a, then b, with what has arrived.
func (s *tlsStream) receiveParts(a, b []byte) (int, unix.Errno) {
	n, errno := s.receive(a)
	if n < len(a) || !s.more {
		return n, errno
	}
	k, errno := s.receive(b)
	if errno != 0 && errno != unix.EAGAIN {
		s.more = true // the error will be returned again
	}
	return n + k, 0
}

// errno returns the number of an error of TLS. For the failure of the session itself that is EBADMSG, and err is the reason.
func (s *tlsStream) errno(err error) unix.Errno {
	var errno unix.Errno
	switch {
	case err == nil:
		return 0
	case err == errNothingArrived:
		return unix.EAGAIN
	case errors.As(err, &errno):
		return errno
	}
	if s.err == nil {
		var op *net.OpError
		s.err, s.rejected = err, errors.As(err, &op) && op.Op == "local error"
		_ = s.link.flush() // the alert that says why; the peer notices the end of the connection without it, too
	}
	return unix.EBADMSG
}

// needsNewKey reports whether the connection should be replaced by one with another key.
func (s *tlsStream) needsNewKey() bool { return s.link.sealed >= maxSessionBytes }

// close announces the end of the session, if there is room for that.
func (s *tlsStream) close() {
	s.link.ep = nil
	if s.err == nil && s.conn.CloseWrite() == nil {
		_ = s.link.flush()
	}
	s.link.drop()
}

// addBuffered adds an endpoint to Domain.buffered.
func (d *Domain) addBuffered(e *endpoint) {
	if !e.polling.buffered {
		e.polling.buffered = true
		d.buffered = append(d.buffered, e)
	}
}

// receiveBuffered receives what TLS holds for connections of which epoll may know nothing, as far as there is room. It reports
// whether there was anything.
func (d *Domain) receiveBuffered() (moved bool) {
	all := d.buffered
	d.buffered = d.buffered[:0] // receiveFrames appends e again, at most where it was
	for _, e := range all {
		e.polling.buffered = false
		switch {
		case !e.stream.open():
		case e.reading.pushes.arrived: // until it is taken, nothing is received
			d.addBuffered(e)
		case e.receiveFrames():
			moved = true
			if e.state == up && e.stream.open() {
				d.activate(e)
			}
		}
	}
	return moved
}
