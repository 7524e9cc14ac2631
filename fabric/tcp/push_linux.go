package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

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
	if e.out.deferred {
		e.flush()
	}
	frameBytes := headerBytes + len(header)
	if min(n, d.settings.maxPush) == 0 || len(header) > pushHeader || e.state != up || !e.stream.open() || e.hasUnsent() ||
		e.serving.count > 0 || e.out.kept.room() < frameBytes+headerBytes {
		return e.send(header, nil, false)
	}
	q := request{src: src, bytes: uint64(min(n, d.settings.maxPush))}
	mem, ok := d.regions.find(q)
	if !ok {
		return e.send(header, nil, false)
	}
	if e.reading.pushes.holdOff > 0 {
		e.reading.pushes.holdOff--
		return e.send(header, nil, false)
	}
	sum, errno := e.framing.sumOfMemory(mem)
	if errno != 0 {
		return e.send(header, nil, false)
	}
	e.sentSinceQuickAck, q.sum = true, sum
	b := append(d.scratch[:headerBytes], header...)
	e.framing.header(b, kindMessage, len(header), e.framing.sum(header))
	b = q.append(b[:frameBytes+headerBytes])
	e.framing.header(b[frameBytes:], kindPush, requestBytes, e.framing.sum(b[frameBytes+headerBytes:]))
	sent, _ := e.stream.sendParts(&[maxParts][]byte{b, mem}, false)
	if sent == 0 { // send finds the reason again
		return e.send(header, nil, false)
	}
	e.out.kept.add(b[:frameBytes])
	e.out.kept.sent += uint64(min(sent, frameBytes))
	if sent > frameBytes { // otherwise the rest of the message goes without the push
		k := min(sent, len(b))
		e.out.setHead(b[k:])
		e.out.body, e.out.bodyKey = mem[sent-k:], src.Key
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
	e.reading.pushes.arrived, e.reading.pushes.req = true, q
	e.d.markReady(e)
	return nil
}

// readPushed is Read for memory that has been pushed. It requests what is missing before it copies the beginning.
func (e *endpoint) readPushed(dst []byte, token uint64) (done bool) {
	p := &e.reading.pushes
	p.completesRead, p.token = uint64(len(dst)) <= p.req.bytes, token
	if !p.completesRead {
		n, src := int(p.req.bytes), p.req.src
		src.Addr += p.req.bytes
		e.reading.reads.push(pendingRead{dst: dst[n:], src: src, token: token})
		e.sendRequests()
		dst = dst[:n]
	}
	p.receiving, p.dst, p.inRead, p.complete = true, dst, true, false
	if len(dst) == 0 && !e.framing.checked {
		e.reading.acceptPushed()
	}
	e.takePushed(dst)
	done, p.inRead = p.complete, false // before parsing, since a later frame may end the connection, which clears p
	e.parseOrMarkDown()
	return done
}

// dropPushed drops pushed memory, and notifies the peer that it arrived too early, unless a Read has requested it already.
func (e *endpoint) dropPushed() {
	if !e.reading.reads.contains(e.reading.pushes.req.src) {
		e.sendControl(kindDropped, nil) // if that fails, the peer pushes more in vain
	}
	e.takePushed(nil)
	e.parseOrMarkDown()
}

// takePushed takes pushed memory out of the buffer, and copies it to dst as far as that reaches. The rest is received by
// receiveFrames.
func (e *endpoint) takePushed(dst []byte) {
	r := &e.reading
	at, n := e.in.parsed+headerBytes+requestBytes, int(r.pushes.req.bytes)
	r.pushes.arrived = false
	here := e.in.buf[at:min(e.in.filled, at+n)]
	if len(here) == n {
		e.in.skip(requestBytes + n)
	} else {
		e.in.dropPartial()
	}
	verify := e.framing.checked && r.pushes.receiving
	r.memory = incomingMemory{into: dst, skip: n - len(dst), verify: verify, want: r.pushes.req.sum}
	if k := copy(dst, here); k > 0 {
		here = here[k:]
		e.addMemory(k)
	}
	if len(here) > 0 {
		e.skipMemory(here)
	}
}
