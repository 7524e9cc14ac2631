package tcp

// incomingMemory is the memory of a kindData or kindPush that is being received. First come the bytes for into, then skip bytes
// that are dropped. If there are checksums, a Read counts them as received only when the checksum of all of them matches. If the
// connection breaks before, it requests them again.
type incomingMemory struct {
	into     []byte // where the next bytes go: memory of the oldest Read, or of a Read of a push
	skip     int    // bytes behind these that are received only to be dropped
	bytes    int    // of the oldest Read: how many it will have received. 0: the memory is of a push
	verify   bool   // there are checksums, and someone needs the bytes
	sum      uint32 // checksum of what has been received
	want     uint32 // checksum of all bytes, as the peer computed it
	mismatch bool   // they differ: all bytes have been received, and some were changed
}

// drop makes what is still to come of the memory be received in vain.
func (m *incomingMemory) drop() {
	m.skip += len(m.into)
	m.into, m.bytes, m.verify = nil, 0, false
}

// addMemory records that the next n bytes of into have been received.
func (e *endpoint) addMemory(n int) {
	m := &e.memory
	if m.verify {
		m.sum = addSum(m.sum, m.into[:n])
	}
	m.into = m.into[n:]
	e.endMemory()
}

// skipMemory records that bytes that are dropped have been received.
func (e *endpoint) skipMemory(b []byte) {
	m := &e.memory
	if m.verify {
		m.sum = addSum(m.sum, b)
	}
	m.skip -= len(b)
	e.endMemory()
}

// endMemory ends the frame if all of it has been received. Without checksums a Read of a push does not wait for what is skipped.
// If the checksum does not match, the next parseFrames reports that.
func (e *endpoint) endMemory() {
	m := &e.memory
	switch {
	case len(m.into) > 0:
	case m.skip > 0:
		if !m.verify && m.bytes == 0 {
			e.acceptPushed()
		}
	case m.verify && m.sum != m.want:
		m.mismatch = true
	default:
		if m.verify {
			e.mismatches = 0
		}
		e.acceptMemory()
	}
}

// acceptMemory hands received memory to its Read.
func (e *endpoint) acceptMemory() {
	n := e.memory.bytes
	e.memory = incomingMemory{}
	if n == 0 {
		e.acceptPushed()
		return
	}
	r := e.reads.oldest()
	r.dst = r.dst[n:]
	r.src.Addr += uint64(n)
	if len(r.dst) == 0 {
		e.finishRead(nil)
	}
}
