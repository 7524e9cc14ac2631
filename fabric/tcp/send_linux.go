package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxJoined is the length up to which copying a message behind its frame header costs less than a system call with three parts.
	maxJoined = 1 << 10
	// maxFlushBytes is about how much one flush sends, so that it does not block its caller for long.
	maxFlushBytes = 1 << 20
)

// Send sends one message. If the kernel takes only a part of it, or nothing, the rest is kept in a buffer. Send returns ErrAgain
// if there is no room for that.
func (e *endpoint) Send(header, payload []byte) error {
	e.d.mu.Lock()
	err := e.send(header, payload)
	e.d.mu.Unlock()
	return err
}

// send is Send with mu held.
func (e *endpoint) send(header, payload []byte) error {
	n := len(header) + len(payload)
	if n > maxSend {
		return fmt.Errorf("tcp: send to peer %d: message of %d bytes is too long: the limit is %d", e.peer, n, maxSend)
	}
	switch {
	case e.state != up:
		return e.stateError()
	case e.stream.fd < 0:
		return e.sendSelf(header, payload)
	case e.hasUnsent():
		return e.enqueue(kindMessage, header, payload, 0)
	}
	e.sentSinceQuickAck = true
	h := e.d.scratch[:headerBytes]
	putFrame(h, kindMessage, n)
	var sent int
	var errno unix.Errno
	if n <= maxJoined {
		b := append(append(h, header...), payload...)
		sent, errno = e.stream.send(b)
	} else {
		sent, errno = e.stream.sendParts(&[maxParts][]byte{h, header, payload}, false)
	}
	if sent == headerBytes+n {
		return nil
	}
	if errno != 0 && errno != unix.EAGAIN {
		return e.sendFailed(errno)
	}
	return e.enqueue(kindMessage, header, payload, sent)
}

// stateError returns why nothing can be sent.
func (e *endpoint) stateError() error {
	if e.state == unconnected || e.state == dialing {
		return fabric.ErrAgain
	}
	return e.sendErr
}

// sendFailed is called when the kernel does not take anything any more. Receiving reports the error, after what the peer has sent
// before.
func (e *endpoint) sendFailed(errno unix.Errno) error {
	if e.lastErr == nil {
		e.lastErr = e.stream.cause(errno)
	}
	return fabric.ErrAgain
}

// hasUnsent reports whether something has to be sent before the next message.
func (e *endpoint) hasUnsent() bool {
	return len(e.out) != 0 || len(e.outBody) != 0 || len(e.outHead) != 0 || e.stream.hasRecords()
}

// enqueue appends a frame to out, without its first taken bytes, which the kernel has taken already. It returns ErrAgain if there
// is no room.
func (e *endpoint) enqueue(k kind, header, payload []byte, taken int) error {
	n := headerBytes + len(header) + len(payload)
	if e.out == nil {
		e.out = e.d.getBuffer()[:0]
	}
	room := cap(e.out) - len(e.out)
	if k != kindShutdown {
		room -= headerBytes // kindShutdown always fits
	}
	if n-taken > room {
		if n-taken > room+e.outSent {
			return fabric.ErrAgain
		}
		e.out = e.out[:copy(e.out, e.out[e.outSent:])]
		e.outSent = 0
	}
	at := len(e.out)
	e.out = e.out[:at+headerBytes]
	putFrame(e.out[at:], k, len(header)+len(payload))
	if taken > 0 { // then nothing else is unsent
		e.out = append(e.out[:0], e.out[min(taken, headerBytes):]...)
	}
	taken = max(taken-headerBytes, 0)
	k1 := min(taken, len(header))
	e.out = append(e.out, header[k1:]...)
	e.out = append(e.out, payload[taken-k1:]...)
	e.d.addUnsent(e)
	return nil
}

// sendControl sends a frame other than a message. It returns false if there is no room.
func (e *endpoint) sendControl(k kind, body []byte) bool {
	if e.hasUnsent() {
		return e.enqueue(k, body, nil, 0) == nil
	}
	e.sentSinceQuickAck = true
	b := e.d.scratch[:headerBytes]
	putFrame(b, k, len(body))
	sent, errno := e.stream.send(append(b, body...))
	if errno != 0 && errno != unix.EAGAIN {
		return e.sendFailed(errno) == nil
	}
	return sent == headerBytes+len(body) || e.enqueue(k, body, nil, sent) == nil
}

// flush sends what is unsent, as far as the kernel takes it, and reports whether it took anything.
func (e *endpoint) flush() bool {
	moved := 0
	for moved < maxFlushBytes && e.stream.fd >= 0 && (e.hasUnsent() || e.serveNext()) {
		n, errno := e.stream.sendParts(&[maxParts][]byte{e.outHead, e.outBody, e.out[e.outSent:]}, e.serving.more && len(e.out) == 0)
		if errno != 0 {
			if errno == unix.EFAULT {
				e.markDown(fmt.Errorf("tcp: peer %d: %w: the memory that it reads is not mapped here: %w", e.peer, fabric.ErrPeerDown, errno))
			} else if errno != unix.EAGAIN {
				_ = e.sendFailed(errno) // receiving reports it
			}
			break
		}
		moved += n
		e.sentSinceQuickAck = true
		e.advanceUnsent(n)
	}
	e.sendRequests()
	return moved > 0
}

// advanceUnsent drops the first n bytes of what is unsent.
func (e *endpoint) advanceUnsent(n int) {
	k := min(n, len(e.outHead))
	e.outHead = e.outHead[k:]
	n -= k
	k = min(n, len(e.outBody))
	e.outBody = e.outBody[k:]
	n -= k
	if e.outSent += n; e.outSent == len(e.out) && e.out != nil {
		e.d.putBuffer(e.out)
		e.out, e.outSent = nil, 0
	}
}

// sendSelf appends a message of this peer to itself to its receive buffer.
func (e *endpoint) sendSelf(header, payload []byte) error {
	n := headerBytes + len(header) + len(payload)
	room := e.recvRoom()
	if len(room) < n {
		return fabric.ErrAgain
	}
	putFrame(room, kindMessage, len(header)+len(payload))
	k := copy(room[headerBytes:], header)
	copy(room[headerBytes+k:], payload)
	e.filled += n
	e.parsed = e.filled
	e.d.markReady(e)
	return nil
}

// flush sends what is unsent on all connections, and reports whether anything was sent.
func (d *Domain) flush() (moved bool) {
	remaining := d.unsent[:0]
	for _, e := range d.unsent {
		moved = e.flush() || moved
		if e.stream.fd >= 0 && (e.hasUnsent() || e.serving.count > 0) {
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
	if !e.inUnsent {
		e.inUnsent = true
		d.unsent = append(d.unsent, e)
		d.progress.start()
	}
	if d.armed {
		d.watchWritable(e, true)
	}
}
