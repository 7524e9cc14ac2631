package tcp

import (
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// reading is what a connection receives into memory of this process: the Reads, and what the peer has
// pushed. It does no input or output.
type reading struct {
	peer   int32
	done   *[]fabric.Event // Domain.doneEvents
	reads  reads
	memory incomingMemory
	pushes pushes
}

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

// pushes is the state of pushes on a connection, in both directions.
//
// A push is memory that is sent before the Read that is expected for it. The memory follows its kindPush in the stream. The
// receiver parses nothing behind it until a Read has taken it, or until the program has had the chance to read it.
type pushes struct {
	arrived       bool    // pushed memory has arrived, and no Read has asked for it yet: its kindPush is at parsed
	req           request // what that memory is
	receiving     bool    // a Read has asked for it, and reading.memory is where it goes
	dst           []byte  // all of the memory of the Read that it goes to
	completesRead bool    // that Read is complete when the rest is there; otherwise the peer sends more, which was requested
	token         uint64  // of that Read
	inRead        bool    // readPushed is running
	complete      bool    // that Read has been completed within readPushed
	holdOff       int     // messages that are sent without a push from now on, because the peer has dropped one
}

// quickAckBytes is how much of a Read has to be missing to request immediate acknowledgements. The request costs a system call,
// and shorter Reads are complete before it pays.
const quickAckBytes = 1 << 20

// needsQuickAck reports whether a long stream follows: the rest of a long Read, or a whole one with
// others behind it.
func (r *reading) needsQuickAck() bool {
	if r.reads.waiting() == 0 {
		return false
	}
	missing := len(r.reads.oldest().dst)
	if m := &r.memory; m.bytes > 0 {
		missing -= m.bytes - len(m.into)
	}
	return missing > quickAckBytes || missing == quickAckBytes && r.reads.waiting() > 1
}

// pushMatches reports whether a Read from src begins with the pushed memory. The push may belong to
// another message: as long as that message waits to be read, its memory stays the same, too.
func (r *reading) pushMatches(src fabric.RemoteKey) bool {
	return r.pushes.arrived && r.pushes.req.src == src
}

// add records that the next n bytes of memory.into have been received. It reports whether a checksum
// has matched.
func (r *reading) add(n int) (verified bool) {
	m := &r.memory
	if m.verify {
		m.sum = addSum(m.sum, m.into[:n])
	}
	m.into = m.into[n:]
	return r.end()
}

// skip records that bytes that are dropped have been received. It reports whether a checksum has
// matched.
func (r *reading) skip(b []byte) (verified bool) {
	m := &r.memory
	if m.verify {
		m.sum = addSum(m.sum, b)
	}
	m.skip -= len(b)
	return r.end()
}

// end ends the frame if all of it has been received, and reports whether its checksum has matched.
// Without checksums a Read of a push does not wait for what is skipped. If the checksum does not
// match, the next parseFrames reports that.
func (r *reading) end() (verified bool) {
	m := &r.memory
	switch {
	case len(m.into) > 0:
	case m.skip > 0:
		if !m.verify && m.bytes == 0 {
			r.acceptPushed()
		}
	case m.verify && m.sum != m.want:
		m.mismatch = true
	default:
		verified = m.verify
		r.accept()
	}
	return verified
}

// accept hands received memory to its Read.
func (r *reading) accept() {
	n := r.memory.bytes
	r.memory = incomingMemory{}
	if n == 0 {
		r.acceptPushed()
		return
	}
	x := r.reads.oldest()
	x.dst = x.dst[n:]
	x.src.Addr += uint64(n)
	if len(x.dst) == 0 {
		r.finish(nil)
	}
}

// acceptPushed ends the pushed part of a Read.
func (r *reading) acceptPushed() {
	p := &r.pushes
	if !p.receiving {
		return
	}
	p.receiving, p.dst = false, nil
	switch {
	case !p.completesRead:
	case p.inRead:
		p.complete = true
	default:
		r.report(p.token, nil)
	}
}

// finish ends the oldest Read. The caller requests the next one from the peer.
func (r *reading) finish(err error) {
	if x := r.reads.oldest(); !x.part {
		r.report(x.token, err)
	}
	r.reads.pop()
	r.reads.requested--
}

// report adds the event of the end of a Read.
func (r *reading) report(token uint64, err error) {
	*r.done = append(*r.done, fabric.Event{Kind: fabric.Done, Peer: r.peer, Token: token, Err: err})
}

// fail ends all Reads with an error.
func (r *reading) fail(err error) {
	r.memory.drop()
	if p := &r.pushes; p.receiving {
		p.receiving, p.dst = false, nil
		if p.completesRead {
			r.report(p.token, err)
		}
	}
	for r.reads.waiting() > 0 {
		if x := r.reads.oldest(); !x.part {
			r.report(x.token, err)
		}
		r.reads.pop()
	}
	r.reads = reads{}
}

// restart prepares all Reads to be requested again on the next connection, from where they are.
func (r *reading) restart() {
	r.memory = incomingMemory{}
	r.reads.requested = 0
	if p := &r.pushes; p.receiving {
		x := pendingRead{dst: p.dst, src: p.req.src, token: p.token, part: !p.completesRead}
		r.reads.all = slices.Insert(r.reads.all, r.reads.head, x)
	}
	r.pushes = pushes{holdOff: r.pushes.holdOff}
}
