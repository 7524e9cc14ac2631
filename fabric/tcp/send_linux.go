package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxJoined is the length up to which copying a message behind its frame header costs less than a system call with three
	// parts.
	maxJoined = 1 << 10
	// maxFlushBytes is about how much one flush sends, so that it does not block its caller for long.
	maxFlushBytes = 1 << 20
	// maxDeferred is how many bytes SendLater keeps at most. Within one machine, messages of 16 KiB had 2.0 GB/s if each was sent
	// alone. They had 3.8 with a limit of 60 KiB, 4.7 with 140, and 5.1 with 192. Between two machines nothing was measured.
	maxDeferred = 192 << 10
	// longestDeferred is the length of the longest frame that is deferred: a payload of 64 KiB and its headers. With a larger value
	// longer messages were not faster.
	longestDeferred = headerBytes + maxHeader + 64<<10
)

// Send sends one message. A copy of it is kept until the peer has received it. If the kernel takes only a part of it, or
// nothing, the rest is sent later. Send returns ErrAgain if too much is kept already.
func (e *endpoint) Send(header, payload []byte) error {
	e.d.mu.Lock()
	err := e.send(header, payload, false)
	e.d.mu.Unlock()
	return err
}

// SendLater keeps a message until the next Send, SendFrom, Push, Read, Flush or Poll. It sends a message that is too long to be
// kept, or with which too much would be kept. What is kept leaves together with that one.
func (e *endpoint) SendLater(header, payload []byte) (kept bool, err error) {
	e.d.mu.Lock()
	n := headerBytes + len(header) + len(payload)
	later := n <= longestDeferred && e.out.kept.unsent()+n <= maxDeferred
	first := !e.out.deferred
	err = e.send(header, payload, later)
	kept = later && e.out.deferred && err == nil
	if kept && first {
		e.d.progress.soon()
	}
	e.d.mu.Unlock()
	return kept, err
}

// Flush sends what SendLater has kept.
func (e *endpoint) Flush() {
	e.d.mu.Lock()
	if e.out.deferred {
		e.flush()
	}
	e.d.mu.Unlock()
}

// send is Send with mu held, or SendLater. The copy that is kept is made after the system call, while the peer already has work
// to do. A message that follows deferred ones is sent together with them, from the copy.
func (e *endpoint) send(header, payload []byte, later bool) error {
	n := len(header) + len(payload)
	if n > maxSend {
		return fmt.Errorf("tcp: send to peer %d: message of %d bytes is too long: the limit is %d", e.peer, n, maxSend)
	}
	switch {
	case e.state != up:
		return e.stateError()
	case e.self():
		return e.sendSelf(header, payload)
	case headerBytes+n > e.out.kept.room()-headerBytes: // a shutdown always fits
		return fabric.ErrAgain
	}
	direct := !later && e.stream.open() && !e.hasUnsent()
	b := e.d.scratch[:headerBytes]
	var sent int
	var errno unix.Errno
	if n <= maxJoined {
		b = append(append(b, header...), payload...)
		e.framing.header(b, kindMessage, n, e.framing.sum(b[headerBytes:]))
		if direct {
			sent, errno = e.stream.send(b)
		}
		e.out.kept.add(b)
	} else {
		sum := e.framing.sum(header)
		if e.framing.checked {
			sum = addSum(sum, payload)
		}
		e.framing.header(b, kindMessage, n, sum)
		if direct {
			sent, errno = e.stream.sendParts(&[maxParts][]byte{b, header, payload}, false)
		}
		e.out.kept.add(b)
		e.out.kept.add(header)
		e.out.kept.add(payload)
	}
	if direct {
		e.sentSinceQuickAck = true
		e.noteSendError(errno)
	}
	if sent == headerBytes+n {
		e.out.kept.sent = e.out.kept.end
		return nil
	}
	e.out.kept.sent += uint64(sent)
	e.d.addUnsent(e)
	if later {
		e.out.deferred = true
	} else if e.out.deferred {
		e.flush()
	}
	return nil
}

// stateError returns why nothing can be sent.
func (e *endpoint) stateError() error {
	if e.state == unconnected || e.state == dialing {
		return fabric.ErrAgain
	}
	return e.sendErr
}

// noteSendError is called with the error of a system call that sends. Receiving reports it, after what the peer has sent
// before.
func (e *endpoint) noteSendError(errno unix.Errno) {
	if errno != 0 && errno != unix.EAGAIN && e.conn.lastErr == nil {
		e.conn.lastErr = e.stream.cause(errno)
	}
}

// hasUnsent reports whether something has to be sent before the next message.
func (e *endpoint) hasUnsent() bool { return !e.out.empty() || e.stream.hasRecords() }

// sendControl sends a frame that is not sent again if the connection breaks. It returns false if there is no room.
func (e *endpoint) sendControl(k kind, body []byte) bool {
	if !e.stream.open() {
		return false
	}
	n := headerBytes + len(body)
	direct := !e.hasUnsent()
	if !direct && len(e.out.control)+n > maxControl {
		return false
	}
	b := append(e.d.scratch[:headerBytes], body...)
	e.framing.header(b, k, len(body), e.framing.sum(body))
	if direct {
		e.sentSinceQuickAck = true
		sent, errno := e.stream.send(b)
		e.noteSendError(errno)
		if b = b[sent:]; len(b) == 0 {
			return true
		}
	}
	e.out.addControl(b)
	e.d.addUnsent(e)
	return true
}

// sendShutdown sends kindShutdown behind all messages.
func (e *endpoint) sendShutdown() {
	var b [headerBytes]byte
	e.framing.header(b[:], kindShutdown, 0, 0)
	e.out.kept.add(b[:])
	e.d.addUnsent(e)
	e.flush()
}

// flush sends what is unsent, as far as the kernel takes it, and reports whether it took anything.
func (e *endpoint) flush() bool {
	moved := 0
	e.out.deferred = false
	for moved < maxFlushBytes && e.stream.open() {
		if len(e.out.body) == 0 && len(e.out.control) == 0 && e.out.kept.unsent() == 0 {
			e.serveNext()
		}
		if !e.hasUnsent() {
			break
		}
		parts := e.out.next()
		n, errno := e.stream.sendParts(&parts, e.serving.more && e.out.kept.unsent() == 0)
		if errno != 0 {
			if errno == unix.EFAULT {
				e.unmapped(errno)
			}
			e.noteSendError(errno)
			break
		}
		moved += n
		e.sentSinceQuickAck = true
		e.out.advance(n)
	}
	e.sendRequests()
	return moved > 0
}

// sendSelf appends a message of this peer to itself to its receive buffer.
func (e *endpoint) sendSelf(header, payload []byte) error {
	n := len(header) + len(payload)
	room := e.in.room(&e.d.buffers)
	if len(room) < headerBytes+n {
		return fabric.ErrAgain
	}
	k := copy(room[headerBytes:], header)
	copy(room[headerBytes+k:], payload)
	e.takeSelf(room, n)
	return nil
}

// takeSelf receives a message of this peer to itself, whose n bytes are in room behind the place of the frame header.
func (e *endpoint) takeSelf(room []byte, n int) {
	frame{kind: kindMessage, length: n}.put(room, false)
	e.in.filled += headerBytes + n
	e.in.parsed = e.in.filled
	e.d.markReady(e)
}

// flush sends what is unsent on all connections, and reports whether anything was sent.
func (d *Domain) flush() (moved bool) {
	remaining := d.unsent[:0]
	for _, e := range d.unsent {
		moved = e.flush() || moved
		if e.stream.open() && (e.hasUnsent() || e.serving.count > 0) {
			remaining = append(remaining, e)
			continue
		}
		e.polling.unsent = false
		d.watchWritable(e, false)
	}
	d.unsent = remaining
	return moved
}

// addUnsent adds an endpoint to Domain.unsent.
func (d *Domain) addUnsent(e *endpoint) {
	if !e.stream.open() {
		return // establish does it
	}
	if !e.polling.unsent {
		e.polling.unsent = true
		d.unsent = append(d.unsent, e)
		d.progress.start()
	}
	if d.armed {
		d.watchWritable(e, true)
	}
}
