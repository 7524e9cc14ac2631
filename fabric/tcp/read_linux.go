package tcp

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// maxReads is how many Reads may be in progress on one connection. Further ones wait at the reader.
const maxReads = 32

// reads are the Reads of this peer on a connection, oldest first.
type reads struct {
	all       []pendingRead
	requested int // the first so many have been requested from the peer
	head      int // index in all of the oldest Read; those before are complete
}

// pendingRead is a Read that is not complete.
type pendingRead struct {
	dst   []byte // the part that has not been received
	src   fabric.RemoteKey
	token uint64
	part  bool // the Read ends with another element, behind this one
}

// waiting returns the number of Reads that are not complete.
func (r *reads) waiting() int { return len(r.all) - r.head }

// quickAckBytes is how much of a Read has to be missing to request immediate acknowledgements. The request costs a system call,
// and shorter Reads are complete before it pays.
const quickAckBytes = 1 << 20

// needsQuickAck reports whether a long stream follows: the rest of a long Read, or a whole one with others behind it.
func (e *endpoint) needsQuickAck() bool {
	r := &e.reads
	if r.waiting() == 0 {
		return false
	}
	missing := len(r.oldest().dst)
	if m := &e.memory; m.bytes > 0 {
		missing -= m.bytes - len(m.into)
	}
	return missing > quickAckBytes || missing == quickAckBytes && r.waiting() > 1
}

// oldest returns the oldest Read that is not complete.
func (r *reads) oldest() *pendingRead { return &r.all[r.head] }

// contains reports whether one of the Reads is of src.
func (r *reads) contains(src fabric.RemoteKey) bool {
	return slices.ContainsFunc(r.all[r.head:], func(x pendingRead) bool { return x.src == src })
}

// push appends a Read.
func (r *reads) push(x pendingRead) {
	if r.head > 0 && len(r.all) == cap(r.all) {
		n := copy(r.all, r.all[r.head:])
		clear(r.all[n:])
		r.all, r.head = r.all[:n], 0
	}
	r.all = append(r.all, x)
}

// pop removes the oldest Read.
func (r *reads) pop() {
	r.all[r.head] = pendingRead{}
	r.head++
	if r.head == len(r.all) {
		r.all, r.head = r.all[:0], 0
	}
}

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
	if e.deferred {
		e.flush()
	}
	if e.pushMatches(src) {
		return e.readPushed(dst, token), nil
	}
	e.reads.push(pendingRead{dst: dst, src: src, token: token})
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
	r := &e.reads
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
		e.memory = incomingMemory{skip: n}
		if k := min(n, len(b)); k > 0 {
			e.skipMemory(b[:k])
		}
		return nil
	}
	if e.reads.requested == 0 {
		return fmt.Errorf("%w: data without a read", fabric.ErrCorrupt)
	}
	dst := e.reads.oldest().dst
	if n > len(dst) || n == 0 && len(dst) != 0 {
		return fmt.Errorf("%w: %d bytes for a read of %d", fabric.ErrCorrupt, n, len(dst))
	}
	if n == 0 {
		e.finishRead(nil)
		return nil
	}
	e.memory = incomingMemory{into: dst[:n], bytes: n, verify: e.checked, want: sum}
	e.addMemory(copy(dst[:n], b))
	if e.memory.mismatch {
		return errChecksum
	}
	return nil
}

// handleRefusal handles kindRefusal.
func (e *endpoint) handleRefusal() error {
	if e.reads.requested == 0 {
		return fmt.Errorf("%w: refusal without a read", fabric.ErrCorrupt)
	}
	e.finishRead(errRefused(e.peer))
	return nil
}

// finishRead ends the oldest Read.
func (e *endpoint) finishRead(err error) {
	if x := e.reads.oldest(); !x.part {
		e.reportDone(x.token, err)
	}
	e.reads.pop()
	e.reads.requested--
	e.sendRequests()
}

// reportDone adds the event of the end of a Read.
func (e *endpoint) reportDone(token uint64, err error) {
	e.d.doneEvents = append(e.d.doneEvents, fabric.Event{Kind: fabric.Done, Peer: e.peer, Token: token, Err: err})
}

// failReads ends all Reads with an error.
func (e *endpoint) failReads(err error) {
	e.memory.drop()
	if p := &e.pushes; p.receiving {
		p.receiving, p.dst = false, nil
		if p.completesRead {
			e.reportDone(p.token, err)
		}
	}
	for e.reads.waiting() > 0 {
		if x := e.reads.oldest(); !x.part {
			e.reportDone(x.token, err)
		}
		e.reads.pop()
	}
	e.reads = reads{}
}

// restartReads prepares all Reads to be requested again on the next connection, from where they are.
func (e *endpoint) restartReads() {
	e.memory = incomingMemory{}
	e.reads.requested = 0
	if p := &e.pushes; p.receiving {
		x := pendingRead{dst: p.dst, src: p.req.src, token: p.token, part: !p.completesRead}
		e.reads.all = slices.Insert(e.reads.all, e.reads.head, x)
	}
	e.pushes = pushes{holdOff: e.pushes.holdOff}
}
