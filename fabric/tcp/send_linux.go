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
	later := n <= longestDeferred && e.out.unsent()+n <= maxDeferred
	first := !e.deferred
	err = e.send(header, payload, later)
	kept = later && e.deferred && err == nil
	if kept && first {
		e.d.progress.soon()
	}
	e.d.mu.Unlock()
	return kept, err
}

// Flush sends what SendLater has kept.
func (e *endpoint) Flush() {
	e.d.mu.Lock()
	if e.deferred {
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
	case headerBytes+n > e.out.room()-headerBytes: // a shutdown always fits
		return fabric.ErrAgain
	}
	direct := !later && e.stream.open() && !e.hasUnsent()
	b := e.d.scratch[:headerBytes]
	var sent int
	var errno unix.Errno
	if n <= maxJoined {
		b = append(append(b, header...), payload...)
		e.putHeader(b, kindMessage, n, e.sumOf(b[headerBytes:]))
		if direct {
			sent, errno = e.stream.send(b)
		}
		e.out.add(b)
	} else {
		sum := e.sumOf(header)
		if e.checked {
			sum = addSum(sum, payload)
		}
		e.putHeader(b, kindMessage, n, sum)
		if direct {
			sent, errno = e.stream.sendParts(&[maxParts][]byte{b, header, payload}, false)
		}
		e.out.add(b)
		e.out.add(header)
		e.out.add(payload)
	}
	if direct {
		e.sentSinceQuickAck = true
		e.noteSendError(errno)
	}
	if sent == headerBytes+n {
		e.out.sent = e.out.end
		return nil
	}
	e.out.sent += uint64(sent)
	e.d.addUnsent(e)
	if later {
		e.deferred = true
	} else if e.deferred {
		e.flush()
	}
	return nil
}

// putHeader writes the header of a frame to b. It acknowledges what has been received.
func (e *endpoint) putHeader(b []byte, k kind, length int, sum uint32) {
	frame{k, length, uint32(e.received), sum}.put(b, e.checked)
	e.ackSent = e.received
}

// sumOf returns the checksum of the body of a frame, or 0 if there are none.
func (e *endpoint) sumOf(body []byte) uint32 {
	if !e.checked {
		return 0
	}
	return addSum(0, body)
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
	if errno != 0 && errno != unix.EAGAIN && e.lastErr == nil {
		e.lastErr = e.stream.cause(errno)
	}
}

// hasUnsent reports whether something has to be sent before the next message.
func (e *endpoint) hasUnsent() bool {
	return e.out.sent != e.out.end || len(e.outBody) != 0 || len(e.outHead) != 0 || len(e.control) != 0 || e.stream.hasRecords()
}

// maxControl is the most that is kept of frames that are neither messages nor answers: the requests of all Reads, and a few
// others.
const maxControl = 2*maxReads*(headerBytes+requestBytes) + headerBytes + maxAddressBytes

// sendControl sends a frame that is not sent again if the connection breaks. It returns false if there is no room.
func (e *endpoint) sendControl(k kind, body []byte) bool {
	if !e.stream.open() {
		return false
	}
	n := headerBytes + len(body)
	direct := !e.hasUnsent()
	if !direct && len(e.control)+n > maxControl {
		return false
	}
	b := append(e.d.scratch[:headerBytes], body...)
	e.putHeader(b, k, len(body), e.sumOf(body))
	if direct {
		e.sentSinceQuickAck = true
		sent, errno := e.stream.send(b)
		e.noteSendError(errno)
		if b = b[sent:]; len(b) == 0 {
			return true
		}
	}
	if len(e.control) == 0 {
		e.controlAt = e.out.end
	}
	e.control = append(e.control, b...)
	e.d.addUnsent(e)
	return true
}

// sendShutdown sends kindShutdown behind all messages.
func (e *endpoint) sendShutdown() {
	var b [headerBytes]byte
	e.putHeader(b[:], kindShutdown, 0, 0)
	e.out.add(b[:])
	e.d.addUnsent(e)
	e.flush()
}

// flush sends what is unsent, as far as the kernel takes it, and reports whether it took anything.
func (e *endpoint) flush() bool {
	moved := 0
	e.deferred = false
	for moved < maxFlushBytes && e.stream.open() {
		if len(e.outBody) == 0 && len(e.control) == 0 && e.out.unsent() == 0 {
			e.serveNext()
		}
		if !e.hasUnsent() {
			break
		}
		parts := e.nextParts()
		n, errno := e.stream.sendParts(&parts, e.serving.more && e.out.unsent() == 0)
		if errno != 0 {
			if errno == unix.EFAULT {
				e.unmapped(errno)
			}
			e.noteSendError(errno)
			break
		}
		moved += n
		e.sentSinceQuickAck = true
		e.advanceUnsent(n)
	}
	e.sendRequests()
	return moved > 0
}

// nextParts returns what is to be sent next.
func (e *endpoint) nextParts() (parts [maxParts][]byte) {
	parts[0], parts[1] = e.outHead, e.outBody
	limit := e.out.end
	if len(e.control) > 0 {
		limit, parts[4] = e.controlAt, e.control
	}
	parts[2] = e.out.part(e.out.sent, limit)
	parts[3] = e.out.part(e.out.sent+uint64(len(parts[2])), limit)
	return parts
}

// advanceUnsent drops the first n bytes of what is unsent, in the order of nextParts.
func (e *endpoint) advanceUnsent(n int) {
	k := min(n, len(e.outHead))
	e.outHead = e.outHead[k:]
	n -= k
	k = min(n, len(e.outBody))
	e.outBody = e.outBody[k:]
	n -= k
	limit := e.out.end
	if len(e.control) > 0 {
		limit = e.controlAt
	}
	k = min(n, int(limit-e.out.sent))
	e.out.sent += uint64(k)
	if n -= k; n > 0 {
		e.control = e.control[n:]
	}
	if len(e.control) == 0 {
		e.control = nil
	}
}

// sendSelf appends a message of this peer to itself to its receive buffer.
func (e *endpoint) sendSelf(header, payload []byte) error {
	n := len(header) + len(payload)
	room := e.recvRoom()
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
	e.filled += headerBytes + n
	e.parsed = e.filled
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
		e.inUnsent = false
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
	if !e.inUnsent {
		e.inUnsent = true
		d.unsent = append(d.unsent, e)
		d.progress.start()
	}
	if d.armed {
		d.watchWritable(e, true)
	}
}
