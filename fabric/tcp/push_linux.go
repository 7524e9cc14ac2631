package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// pushes is the state of pushes on a connection, in both directions.
//
// A push is memory that is sent before the Read that is expected for it. The memory follows its kindPush in the stream. The
// receiver parses nothing behind it until a Read has taken it, or until the program has had the chance to read it.
type pushes struct {
	arrived       bool    // pushed memory has arrived, and no Read has asked for it yet: its kindPush is at parsed
	req           request // what that memory is
	receiving     bool    // a Read has asked for it, and endpoint.recvInto is where the rest of it goes
	completesRead bool    // that Read is complete when the rest is there; otherwise the peer sends more, which was requested
	token         uint64  // of that Read
	skip          int     // bytes behind these that are received only to be dropped
	holdOff       int     // messages that are sent without a push from now on, because the peer has dropped one
}

const (
	// pushHeader is the length of the longest header of a message behind which memory is pushed.
	pushHeader = 64
	// holdOffMessages is how many messages go without a push after the peer has dropped one.
	holdOffMessages = 16
)

// Push is Send for the header. If nothing else is unsent, it sends the memory, or its beginning, behind it.
func (e *endpoint) Push(header []byte, src fabric.RemoteKey, n int) error {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if min(n, d.maxPush) == 0 || len(header) > pushHeader || e.state != up || !e.stream.open() || e.hasUnsent() ||
		e.serving.count > 0 {
		return e.send(header, nil)
	}
	q := request{src, uint64(min(n, d.maxPush))}
	mem, ok := d.regions.find(q)
	if !ok {
		return e.send(header, nil)
	}
	if e.pushes.holdOff > 0 {
		e.pushes.holdOff--
		return e.send(header, nil)
	}
	e.sentSinceQuickAck = true
	b := d.scratch[:headerBytes]
	putFrame(b, kindMessage, len(header))
	b = append(b, header...)
	at := len(b)
	b = b[:at+headerBytes]
	putFrame(b[at:], kindPush, requestBytes)
	b = q.append(b)
	sent, _ := e.stream.sendParts(&[maxParts][]byte{b, mem}, false)
	if sent == 0 { // send finds the reason again
		return e.send(header, nil)
	}
	k := min(sent, len(b))
	e.outHead = e.headBuf[:copy(e.headBuf[:], b[k:])]
	e.outBody, e.outKey = mem[sent-k:], src.Key
	if e.hasUnsent() {
		d.addUnsent(e)
	}
	return nil
}

// handlePush handles kindPush.
func (e *endpoint) handlePush(b []byte) error {
	q, _ := parseRequest(b)
	if q.bytes == 0 || q.bytes > PushBytes {
		return fmt.Errorf("%w: push of %d bytes", fabric.ErrCorrupt, q.bytes)
	}
	e.pushes.arrived, e.pushes.req = true, q
	e.d.markReady(e)
	return nil
}

// pushMatches reports whether a Read from src begins with the pushed memory. The push may belong to another message: as long as
// that message waits to be read, its memory stays the same, too.
func (e *endpoint) pushMatches(src fabric.RemoteKey) bool {
	return e.pushes.arrived && e.pushes.req.src == src
}

// readPushed is Read for memory that has been pushed. It requests what is missing before it copies the beginning.
func (e *endpoint) readPushed(dst []byte, token uint64) (done bool) {
	p := &e.pushes
	p.completesRead, p.token = uint64(len(dst)) <= p.req.bytes, token
	if !p.completesRead {
		n, src := int(p.req.bytes), p.req.src
		src.Addr += p.req.bytes
		e.reads.push(pendingRead{dst[n:], src, token})
		e.sendRequests()
		dst = dst[:n]
	}
	copied, missing := e.takePushed(dst)
	if copied < len(dst) {
		e.recvInto, p.receiving = dst[copied:], true
		p.skip = missing - len(e.recvInto)
		return false
	}
	p.skip = missing
	e.parseOrMarkDown()
	return p.completesRead
}

// dropPushed drops pushed memory, and notifies the peer that it arrived too early, unless a Read has requested it already.
func (e *endpoint) dropPushed() {
	if !e.reads.contains(e.pushes.req.src) {
		e.sendControl(kindDropped, nil) // if that fails, the peer pushes more in vain
	}
	_, e.pushes.skip = e.takePushed(nil)
	e.parseOrMarkDown()
}

// takePushed takes pushed memory out of the buffer, and copies it to dst as far as that reaches. It returns how many bytes were
// in the buffer, and how many have not arrived yet.
func (e *endpoint) takePushed(dst []byte) (copied, missing int) {
	at, n := e.parsed+headerBytes+requestBytes, int(e.pushes.req.bytes)
	e.pushes.arrived = false
	if copied = e.filled - at; copied >= n {
		copy(dst, e.buf[at:at+n])
		e.skipFrame(requestBytes + n)
		return n, 0
	}
	copy(dst, e.buf[at:e.filled])
	e.filled = e.parsed
	return copied, n - copied
}
