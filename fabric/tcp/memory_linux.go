package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// incomingMemory is the memory of a kindData or kindPush that is being received. First come the bytes for into, then skip bytes
// that are dropped, and then a kindSum if there are checksums. A Read counts them as received only after that. If the connection
// breaks before, it requests them again.
type incomingMemory struct {
	into     []byte // where the next bytes go: memory of the oldest Read, or of a Read of a push
	skip     int    // bytes behind these that are received only to be dropped
	sum      uint32 // checksum of what has been received
	bytes    int    // of the oldest Read: how many it will have received. 0: the memory is of a push
	verify   bool   // sum covers all bytes of the frame, and someone needs them
	awaitSum bool   // a kindSum is next
}

// begin is called when the header of a kindData or kindPush has been parsed.
func (m *incomingMemory) begin(into []byte, skip, bytes int, verify bool) {
	*m = incomingMemory{into: into, skip: skip, bytes: bytes, verify: verify}
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
func (e *endpoint) endMemory() {
	m := &e.memory
	switch {
	case len(m.into) > 0:
	case !e.checked() && m.bytes == 0 && m.skip > 0:
		e.acceptPushed()
	case m.skip > 0:
	case e.checked():
		m.awaitSum = true
	default:
		e.acceptMemory()
	}
}

// handleSum handles kindSum.
func (e *endpoint) handleSum(sum uint32) error {
	m := &e.memory
	if !m.awaitSum {
		return fmt.Errorf("%w: checksum of no memory", fabric.ErrCorrupt)
	}
	m.awaitSum = false
	if m.verify && m.sum != sum {
		return errChecksum
	}
	e.mismatches = 0
	e.acceptMemory()
	return nil
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
