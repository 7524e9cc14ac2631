package proto

import (
	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// The data of a request may be in many blocks of memory. Then buf is nil, and data describes the
// memory. Each message of the transport is packed from there, directly into the memory of the
// transport where that is possible (fabric.Gatherer). The receiver unpacks from the memory of the
// transport. So while the sender packs one message the receiver unpacks the one before.
//
// The other side of a message does not know. It may have its data in one block:
//
//   - An RTS names no memory if the sender's data is in parts: the receiver requests the payload in
//     pieces.
//   - A receiver whose memory is in parts requests the payload in pieces.
//   - A receiver whose memory is in parts sends no RTR.
//   - A sender whose data is in parts answers an RTR with Put and pieces.

// parts is the data of a request in parts. It belongs to the engine and is reused.
type parts struct {
	datatype.Buffer
	next *parts // free list
}

// setData makes the elements of d the data of the request: bytes if they are one block of memory.
func (q *Requests) setData(r *Request, d *datatype.Buffer) {
	if b, ok := d.Contiguous(); ok {
		r.buf = b
		return
	}
	x := q.parts
	if x == nil {
		x = new(parts)
	} else {
		q.parts = x.next
	}
	x.Buffer, x.next = *d, nil
	r.buf, r.data = nil, x
	r.flags |= inParts
}

// releaseData frees the description of data in parts.
func (q *Requests) releaseData(r *Request) {
	r.flags &^= inParts
	x := r.data
	r.data = nil
	x.Buffer = datatype.Buffer{}
	x.next, q.parts = q.parts, x
}

// size returns the length of the request's data in bytes.
func (r *Request) size() int {
	if r.data != nil {
		return int(r.data.Size())
	}
	return len(r.buf)
}

// store copies received bytes to the memory of a receive, from byte at on, as far as there is room.
// It returns how many.
func (r *Request) store(at int, payload []byte) int {
	switch {
	case r.data != nil:
		return r.data.Unpack(payload, int64(at))
	case at < len(r.buf):
		return copy(r.buf[at:], payload)
	}
	return 0
}

// sendPacked sends a message whose payload is in parts.
func (l *links) sendPacked(p *peer, header []byte, src fabric.Source, from, n int) error {
	if n == 0 {
		return p.ep.Send(header, nil)
	}
	if p.gatherer != nil {
		return p.gatherer.SendFrom(header, src, int64(from), n)
	}
	if len(l.staging) < n {
		l.staging = make([]byte, max(n, p.path.caps.MaxSend))
	}
	src.Pack(l.staging[:n], int64(from))
	return p.ep.Send(header, l.staging[:n])
}
