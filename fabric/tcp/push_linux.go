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
	receiving     bool    // a Read has asked for it, and endpoint.memory is where it goes
	dst           []byte  // all of the memory of the Read that it goes to
	completesRead bool    // that Read is complete when the rest is there; otherwise the peer sends more, which was requested
	token         uint64  // of that Read
	inRead        bool    // readPushed is running
	complete      bool    // that Read has been completed within readPushed
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
	if e.deferred {
		e.flush()
	}
	frameBytes := headerBytes + len(header)
	if min(n, d.maxPush) == 0 || len(header) > pushHeader || e.state != up || !e.stream.open() || e.hasUnsent() ||
		e.serving.count > 0 || e.out.room() < frameBytes+headerBytes {
		return e.send(header, nil, false)
	}
	q := request{src: src, bytes: uint64(min(n, d.maxPush))}
	mem, ok := d.regions.find(q)
	if !ok {
		return e.send(header, nil, false)
	}
	if e.pushes.holdOff > 0 {
		e.pushes.holdOff--
		return e.send(header, nil, false)
	}
	sum, errno := e.sumOfMemory(mem)
	if errno != 0 {
		return e.send(header, nil, false)
	}
	e.sentSinceQuickAck, q.sum = true, sum
	b := append(d.scratch[:headerBytes], header...)
	e.putHeader(b, kindMessage, len(header), e.sumOf(header))
	b = q.append(b[:frameBytes+headerBytes])
	e.putHeader(b[frameBytes:], kindPush, requestBytes, e.sumOf(b[frameBytes+headerBytes:]))
	sent, _ := e.stream.sendParts(&[maxParts][]byte{b, mem}, false)
	if sent == 0 { // send finds the reason again
		return e.send(header, nil, false)
	}
	e.out.add(b[:frameBytes])
	e.out.sent += uint64(min(sent, frameBytes))
	if sent > frameBytes { // otherwise the rest of the message goes without the push
		k := min(sent, len(b))
		e.outHead = e.headBuf[:copy(e.headBuf[:], b[k:])]
		e.outBody, e.outKey = mem[sent-k:], src.Key
	}
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
		e.reads.push(pendingRead{dst: dst[n:], src: src, token: token})
		e.sendRequests()
		dst = dst[:n]
	}
	p.receiving, p.dst, p.inRead, p.complete = true, dst, true, false
	if len(dst) == 0 && !e.checked {
		e.acceptPushed()
	}
	e.takePushed(dst)
	done, p.inRead = p.complete, false // before parsing, since a later frame may end the connection, which clears p
	e.parseOrMarkDown()
	return done
}

// dropPushed drops pushed memory, and notifies the peer that it arrived too early, unless a Read has requested it already.
func (e *endpoint) dropPushed() {
	if !e.reads.contains(e.pushes.req.src) {
		e.sendControl(kindDropped, nil) // if that fails, the peer pushes more in vain
	}
	e.takePushed(nil)
	e.parseOrMarkDown()
}

// takePushed takes pushed memory out of the buffer, and copies it to dst as far as that reaches. The rest is received by
// receiveFrames.
func (e *endpoint) takePushed(dst []byte) {
	at, n := e.parsed+headerBytes+requestBytes, int(e.pushes.req.bytes)
	e.pushes.arrived = false
	here := e.buf[at:min(e.filled, at+n)]
	if len(here) == n {
		e.skipFrame(requestBytes + n)
	} else {
		e.filled = e.parsed
	}
	e.memory = incomingMemory{into: dst, skip: n - len(dst), verify: e.checked && e.pushes.receiving, want: e.pushes.req.sum}
	if k := copy(dst, here); k > 0 {
		here = here[k:]
		e.addMemory(k)
	}
	if len(here) > 0 {
		e.skipMemory(here)
	}
}

// acceptPushed ends the pushed part of a Read.
func (e *endpoint) acceptPushed() {
	p := &e.pushes
	if !p.receiving {
		return
	}
	p.receiving, p.dst = false, nil
	switch {
	case !p.completesRead:
	case p.inRead:
		p.complete = true
	default:
		e.reportDone(p.token, nil)
	}
}
