package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Read requests memory of the peer, which streams it.
func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state == closing || e.state == closed {
		return false, e.sendErr
	}
	if s := d.regions.slot(local.Local); s == nil || len(dst) > len(s.b) {
		return false, fmt.Errorf("tcp: read: the %d bytes of dst are not in registered memory", len(dst))
	}
	if e.self() {
		b, ok := d.regions.find(request{src: src, bytes: uint64(len(dst))})
		if !ok {
			return false, errRefused(e.peer)
		}
		copy(dst, b)
		return true, nil
	}
	if e.out.deferred {
		e.flush()
	}
	if e.reading.pushMatches(src) {
		return e.readPushed(dst, token), nil
	}
	e.reading.reads.push(pendingRead{dst: dst, src: src, token: token})
	e.sendRequests()
	return false, nil
}

// errRefused returns the error of a Read of memory that is not registered.
func errRefused(peer int32) error {
	return fmt.Errorf("tcp: read from peer %d: the memory is not registered there", peer)
}

// sendRequests sends the requests of Reads that have not been requested from the peer yet, as many as possible.
func (e *endpoint) sendRequests() {
	if e.state != up || !e.stream.open() {
		return
	}
	r := &e.reading.reads
	for r.requested < min(r.waiting(), maxReads) {
		next := &r.all[r.head+r.requested]
		q := request{src: next.src, bytes: uint64(len(next.dst))}
		r.requested++ // before the answer could arrive
		if !e.sendControl(kindRead, q.append(e.d.requestBuf[:0])) {
			r.requested--
			return
		}
	}
}

// handleData handles a kindData with a body of n bytes, whose checksum is sum. b is the part of the body that is in buf.
func (e *endpoint) handleData(b []byte, n int, sum uint32) error {
	if e.state == closing { // the Read has failed
		e.reading.memory = incomingMemory{skip: n}
		if k := min(n, len(b)); k > 0 {
			e.skipMemory(b[:k])
		}
		return nil
	}
	if e.reading.reads.requested == 0 {
		return fmt.Errorf("%w: data without a read", fabric.ErrCorrupt)
	}
	dst := e.reading.reads.oldest().dst
	if n > len(dst) || n == 0 && len(dst) != 0 {
		return fmt.Errorf("%w: %d bytes for a read of %d", fabric.ErrCorrupt, n, len(dst))
	}
	if n == 0 {
		e.reading.finish(nil)
		e.sendRequests()
		return nil
	}
	e.reading.memory = incomingMemory{into: dst[:n], bytes: n, verify: e.framing.checked, want: sum}
	e.addMemory(copy(dst[:n], b))
	if e.reading.memory.mismatch {
		return errChecksum
	}
	return nil
}

// handleRefusal handles kindRefusal.
func (e *endpoint) handleRefusal() error {
	if e.reading.reads.requested == 0 {
		return fmt.Errorf("%w: refusal without a read", fabric.ErrCorrupt)
	}
	e.reading.finish(errRefused(e.peer))
	e.sendRequests()
	return nil
}

// addMemory records that the next n bytes of the memory that is being received have arrived.
func (e *endpoint) addMemory(n int) {
	if e.reading.add(n) {
		e.conn.mismatches = 0
	}
	e.sendRequests()
}

// skipMemory records that bytes that are dropped have arrived.
func (e *endpoint) skipMemory(b []byte) {
	if e.reading.skip(b) {
		e.conn.mismatches = 0
	}
	e.sendRequests()
}
