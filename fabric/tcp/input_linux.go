package tcp

// bufferBytes is the length of a buffer, for sending or receiving: one of the longest messages fits behind a shorter one.
const bufferBytes = 2 * (headerBytes + maxSend)

// maxFreeBuffers is how many unused buffers are kept.
const maxFreeBuffers = 16

// buffers are the unused buffers of a domain.
type buffers struct{ free [][]byte }

// get returns an unused buffer, or a new one.
func (p *buffers) get() []byte {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return make([]byte, bufferBytes)
}

// put returns a buffer for reuse. b may be shorter than the buffer, and must begin where the buffer
// begins.
func (p *buffers) put(b []byte) {
	if len(p.free) < maxFreeBuffers {
		p.free = append(p.free, b[:cap(b)])
	}
}

// input is what a connection has received: buf[:filled] are frames. Those before parsed have been
// parsed, and messages before delivered have been returned by Poll: delivered <= parsed <= filled.
type input struct {
	buf                       []byte // nil: empty
	delivered, parsed, filled int
	// borrowed: the endpoint is in Domain.borrowed. Events refer to buf, which must not change
	// before the next Poll.
	borrowed bool
	lent     []byte // the buffer that events refer to, if it is not buf any more
}

// room returns the free part of buf. It moves the rest of buf to the beginning only if that is less
// than what has been delivered before it, so that a program that takes one message at a time does
// not cause a move of all others each time. While events refer to buf, nothing is moved within it.
// If it is full then, another buffer takes its place until the next Poll: the peer may wait for
// something that needs no Poll.
func (in *input) room(p *buffers) []byte {
	if in.buf == nil {
		in.buf = p.get()
	}
	used := in.filled - in.delivered
	full := len(in.buf)-in.filled < headerBytes+maxSend
	if used <= in.delivered && (!in.borrowed && (used == 0 || full) || in.borrowed && full && in.lent == nil) {
		from := in.buf
		if in.borrowed {
			in.lent, in.buf = in.buf, p.get()
		}
		copy(in.buf, from[in.delivered:in.filled])
		in.parsed -= in.delivered
		in.filled -= in.delivered
		in.delivered = 0
	}
	return in.buf[in.filled:]
}

// endBorrowing ends the validity of the messages that the last Poll returned, and releases the
// buffer if it is empty.
func (in *input) endBorrowing(p *buffers) {
	in.borrowed = false
	if in.lent != nil {
		p.put(in.lent)
		in.lent = nil
	}
	in.releaseEmpty(p)
}

// releaseEmpty returns buf for reuse if all of it has been delivered, unless events refer to it.
func (in *input) releaseEmpty(p *buffers) {
	if in.delivered == in.filled {
		in.release(p)
	}
}

// release returns buf for reuse, unless events refer to it.
func (in *input) release(p *buffers) {
	if in.buf != nil && !in.borrowed {
		p.put(in.buf)
		in.buf = nil
		in.delivered, in.parsed, in.filled = 0, 0, 0
	}
}

// missing returns how many bytes of the next frame are missing. It returns 0 if not even its header
// is complete.
func (in *input) missing() int {
	if in.filled-in.parsed < headerBytes {
		return 0
	}
	_, n := storedFrame(in.buf[in.parsed:]) // parseFrames has accepted it
	return headerBytes + n - (in.filled - in.parsed)
}

// skip advances parsed behind a frame with a body of n bytes that has been handled.
func (in *input) skip(n int) {
	if in.filled == in.parsed {
		return // the connection has ended meanwhile
	}
	end := in.parsed + headerBytes + n
	if in.delivered == in.parsed {
		in.delivered = end
	} else { // behind messages that have not been delivered yet
		frame{kind: kindSkip, length: n}.put(in.buf[in.parsed:], false)
	}
	in.parsed = end
}

// dropPartial drops the frame that is not complete. The rest of it will not arrive, or goes
// elsewhere.
func (in *input) dropPartial() { in.filled = in.parsed }
