package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxReceiveBytes is about how much one call receives into memory, so that it does not block its caller for long.
	maxReceiveBytes = 1 << 20
	// readAhead is how much is received in addition to the bytes of a Read: the headers between, and little that has to be copied.
	readAhead = 1 << 10
)

// receiveFrames receives what has arrived, and parses it. It reports whether anything arrived. While a Read is in progress its
// bytes go to recvInto, without a copy.
func (e *endpoint) receiveFrames() bool {
	moved := 0
	for moved < maxReceiveBytes && e.stream.fd >= 0 && e.downErr == nil && !e.pushes.arrived {
		room := e.recvRoom()
		if len(e.recvInto) != 0 || e.reads.requested > 0 && e.pushes.skip == 0 {
			room = room[:min(len(room), max(readAhead, e.missingBytes()))]
		}
		if len(room) == 0 {
			break // the program has to take some first
		}
		if e.pushes.skip != 0 {
			room = room[:min(len(room), e.pushes.skip)]
		}
		var n int
		var errno unix.Errno
		if len(e.recvInto) != 0 {
			if e.sentSinceQuickAck && e.reads.waiting() > 0 && e.reads.needsQuickAck() {
				e.sentSinceQuickAck = false
				requestQuickAck(e.stream.fd)
			}
			n, errno = e.stream.receiveParts(e.recvInto, room)
		} else {
			n, errno = e.stream.receive(room)
		}
		if errno == unix.EAGAIN {
			break
		}
		if n == 0 {
			e.connectionEnded(errno)
			return true
		}
		full := n == len(e.recvInto)+len(room)
		moved += n
		if k := min(n, len(e.recvInto)); k > 0 {
			e.advanceRead(k)
			n -= k
		}
		if k := min(n, e.pushes.skip); k > 0 {
			e.pushes.skip -= k
			n -= k
		}
		e.filled += n
		if !e.parseOrMarkDown() {
			return true
		}
		if !full {
			break
		}
	}
	if e.filled == e.delivered && !e.borrowed {
		e.releaseBuffer()
	}
	if e.stream.hasMore() {
		e.d.addBuffered(e)
	}
	return moved > 0
}

// missingBytes returns how many bytes of the next frame are missing. It returns 0 if not even its header is complete.
func (e *endpoint) missingBytes() int {
	if _, n, ok, err := parseFrame(e.buf[e.parsed:e.filled]); ok && err == nil {
		return headerBytes + n - (e.filled - e.parsed)
	}
	return 0
}

// parseOrMarkDown parses frames. If they are corrupt it marks the peer as down and returns false.
func (e *endpoint) parseOrMarkDown() bool {
	err := e.parseFrames()
	if err != nil {
		e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	return err == nil
}

// parseFrames parses the frames that have been received. Messages stay in buf; the others are handled immediately.
func (e *endpoint) parseFrames() error {
	for e.downErr == nil && !e.pushes.arrived {
		k, n, ok, err := parseFrame(e.buf[e.parsed:e.filled])
		if err != nil || !ok {
			return err
		}
		at := e.parsed + headerBytes
		if k == kindData {
			if err := e.handleData(e.buf[at:e.filled], n); err != nil {
				return err
			}
			if n >= e.filled-at { // the rest of the frame goes to the Read's memory, not to buf
				e.filled = e.parsed
				return nil
			}
		} else if n > e.filled-at {
			return nil
		}
		switch k {
		case kindMessage:
			e.d.markReady(e)
		case kindRead:
			err = e.handleRead(e.buf[at:][:n])
		case kindRefusal:
			err = e.handleRefusal()
		case kindPush:
			return e.handlePush(e.buf[at:][:n])
		case kindDropped:
			e.pushes.holdOff = holdOffMessages
		case kindShutdown:
			e.markDown(fmt.Errorf("tcp: peer %d: %w", e.peer, fabric.ErrPeerClosed))
			return nil
		}
		if err != nil {
			return err
		}
		if k == kindMessage {
			e.parsed = at + n
		} else {
			e.skipFrame(n)
		}
	}
	return nil
}

// skipFrame advances parsed behind a frame with a body of n bytes that has been handled.
func (e *endpoint) skipFrame(n int) {
	end := e.parsed + headerBytes + n
	if e.delivered == e.parsed {
		e.delivered = end
	} else { // behind messages that have not been delivered yet
		putFrame(e.buf[e.parsed:], kindSkip, n)
	}
	e.parsed = end
}
