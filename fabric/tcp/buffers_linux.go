package tcp

// bufferBytes is the length of a buffer, for sending or receiving: one of the longest messages fits behind a shorter one.
const bufferBytes = 2 * (headerBytes + maxSend)

// maxFreeBuffers is how many unused buffers are kept.
const maxFreeBuffers = 16

// getBuffer returns an unused buffer, or a new one.
func (d *Domain) getBuffer() []byte {
	if n := len(d.freeBuffers); n > 0 {
		b := d.freeBuffers[n-1]
		d.freeBuffers = d.freeBuffers[:n-1]
		return b
	}
	return make([]byte, bufferBytes)
}

// putBuffer returns a buffer for reuse. b may be shorter than the buffer, and must begin where the buffer begins.
func (d *Domain) putBuffer(b []byte) {
	if len(d.freeBuffers) < maxFreeBuffers {
		d.freeBuffers = append(d.freeBuffers, b[:cap(b)])
	}
}

// releaseBorrowed ends the validity of the messages that the last Poll returned, and releases their buffers if they are empty.
func (d *Domain) releaseBorrowed() {
	for _, e := range d.borrowed {
		e.borrowed = false
		if e.lent != nil {
			d.putBuffer(e.lent)
			e.lent = nil
		}
		if e.delivered == e.filled {
			e.releaseBuffer()
		}
	}
	d.borrowed = d.borrowed[:0]
}

// recvRoom returns the free part of buf. It moves the rest of buf to the beginning only if that is less than what has been
// delivered before it, so that a program that takes one message at a time does not cause a move of all others each time. While
// events refer to buf, nothing is moved within it. If it is full then, another buffer takes its place until the next Poll: the
// peer may wait for something that needs no Poll.
func (e *endpoint) recvRoom() []byte {
	if e.buf == nil {
		e.buf = e.d.getBuffer()
	}
	used := e.filled - e.delivered
	full := len(e.buf)-e.filled < headerBytes+maxSend
	if used <= e.delivered && (!e.borrowed && (used == 0 || full) || e.borrowed && full && e.lent == nil) {
		from := e.buf
		if e.borrowed {
			e.lent, e.buf = e.buf, e.d.getBuffer()
		}
		copy(e.buf, from[e.delivered:e.filled])
		e.parsed -= e.delivered
		e.filled -= e.delivered
		e.delivered = 0
	}
	return e.buf[e.filled:]
}

// releaseBuffer returns buf for reuse, unless events refer to it.
func (e *endpoint) releaseBuffer() {
	if e.buf != nil && !e.borrowed {
		e.d.putBuffer(e.buf)
		e.buf = nil
		e.delivered, e.parsed, e.filled = 0, 0, 0
	}
}
