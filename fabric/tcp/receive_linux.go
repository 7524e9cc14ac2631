package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxReceiveBytes is about how much one call receives into memory, so that it does not block its caller for long.
	maxReceiveBytes = 1 << 20
	// maxPiece is how much of the memory of a Read is received before its checksum is computed: the piece is in a cache then.
	maxPiece = 256 << 10
	// readAhead is how much is received in addition to the bytes of a Read: the headers between, and little that has to be copied.
	readAhead = 1 << 10
)

// receiveFrames receives what has arrived, and parses it. It reports whether anything arrived. While a Read is in progress its
// bytes go to its memory, without a copy.
func (e *endpoint) receiveFrames() bool {
	moved := 0
	m := &e.reading.memory
	for moved < maxReceiveBytes && e.stream.open() && e.downErr == nil && !e.reading.pushes.arrived {
		room := e.in.room(&e.d.buffers)
		if len(m.into) != 0 || e.reading.reads.requested > 0 && m.skip == 0 {
			room = room[:min(len(room), max(readAhead, e.in.missing()))]
		}
		if len(room) == 0 {
			break // the program has to take some first
		}
		if m.skip != 0 {
			room = room[:min(len(room), m.skip)]
		}
		n, asked, errno := e.receiveParts(room)
		if errno == unix.EAGAIN {
			break
		}
		if n == 0 {
			e.connectionEnded(errno)
			return true
		}
		full := n == asked
		moved += n
		if k := min(n, len(m.into)); k > 0 {
			e.addMemory(k)
			n -= k
		}
		if k := min(n, m.skip); k > 0 {
			e.skipMemory(room[:k])
			n -= k
		}
		e.in.filled += n
		if !e.parseOrMarkDown() {
			return true
		}
		if !full {
			break
		}
	}
	e.in.releaseEmpty(&e.d.buffers)
	if e.stream.hasMore() {
		e.d.addBuffered(e)
	}
	return moved > 0
}

// receiveParts receives into the memory of a Read, if one is in progress, and then into room. asked is how much it had room for.
func (e *endpoint) receiveParts(room []byte) (n, asked int, errno unix.Errno) {
	into := e.reading.memory.into
	if len(into) == 0 {
		n, errno = e.stream.receive(room)
		return n, len(room), errno
	}
	if e.sentSinceQuickAck && e.reading.needsQuickAck() {
		e.sentSinceQuickAck = false
		requestQuickAck(e.stream.fd)
	}
	if len(into) > maxPiece && e.reading.memory.verify {
		n, errno = e.stream.receive(into[:maxPiece])
		return n, maxPiece, errno
	}
	n, errno = e.stream.receiveParts(into, room)
	return n, len(into) + len(room), errno
}

// parseOrMarkDown parses frames. If they are corrupt it marks the peer as down and returns false. If a checksum does not match
// it makes the connection again, and also returns false.
func (e *endpoint) parseOrMarkDown() bool {
	switch err := e.parseFrames(); {
	case err == nil:
		if e.state == closing && e.out.kept.acked == e.out.kept.end {
			e.closeSocket()
		}
		return true
	case err == errChecksum:
		e.bytesChanged(errChecksum)
	default:
		e.markDown(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	return false
}

// parseFrames parses the frames that have been received. Messages stay in buf; the others are handled immediately.
func (e *endpoint) parseFrames() error {
	checked := e.framing.checked
	if e.reading.memory.mismatch {
		return errChecksum
	}
	for e.downErr == nil && !e.reading.pushes.arrived {
		f, ok, err := parseFrame(e.in.buf[e.in.parsed:e.in.filled], checked)
		if err != nil || !ok {
			return err
		}
		at := e.in.parsed + headerBytes
		if err := e.out.kept.acknowledge(f.ack); err != nil {
			return err
		}
		if f.kind == kindData {
			if err := e.handleData(e.in.buf[at:e.in.filled], f.length, f.sum); err != nil {
				return err
			}
			if f.length >= e.in.filled-at { // the rest of the frame goes to the Read's memory, not to buf
				e.in.dropPartial()
				return nil
			}
			e.in.skip(f.length)
			continue
		}
		if f.length > e.in.filled-at {
			return nil
		}
		body := e.in.buf[at:][:f.length]
		if checked && f.sum != addSum(0, body) {
			return errChecksum
		}
		if f.kind == kindMessage && e.state != closing {
			e.countReceived(headerBytes + f.length)
			e.d.markReady(e)
			e.in.parsed = at + f.length
			continue
		}
		if f.kind == kindPush { // it remains at parsed until its memory is taken
			if err := e.handlePush(body); err != nil || e.state != closing {
				return err
			}
			e.takePushed(nil)
			continue
		}
		if err := e.handleFrame(f, body); err != nil {
			return err
		}
		e.in.skip(f.length)
	}
	return nil
}

// handleFrame handles a frame that does not stay in buf.
func (e *endpoint) handleFrame(f frame, body []byte) error {
	switch f.kind {
	case kindMessage: // closed here: drop it
		e.countReceived(headerBytes + f.length)
	case kindRead:
		return e.handleRead(body)
	case kindRefusal:
		return e.handleRefusal()
	case kindDropped:
		e.reading.pushes.holdOff = holdOffMessages
	case kindAddress:
		return e.handleAddress(body)
	case kindShutdown:
		e.framing.received += headerBytes
		e.sendControl(kindAck, nil) // if it is lost with the connection, the peer connects again, and gets labelEnded
		if e.state != closing {
			e.markDown(fmt.Errorf("tcp: peer %d: %w", e.peer, fabric.ErrPeerClosed))
		}
	}
	return nil
}

// countReceived counts a message of n bytes with its header as received. The peer need not keep it any longer, and learns that
// with the next frame, or by a frame of its own after ackBytes.
func (e *endpoint) countReceived(n int) {
	e.framing.received += uint64(n)
	e.conn.mismatches = 0
	if e.framing.received-e.framing.ackSent >= ackBytes {
		e.sendControl(kindAck, nil)
	}
}
