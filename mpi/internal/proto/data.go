package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// The calls for data that may be in many blocks of memory; parts.go describes such data.

// deliverParts is the part of deliver for a receive whose memory is in parts.
func (x *receives) deliverParts(r *Request, source, tag int32, payload []byte) {
	n := r.data.Unpack(payload, 0)
	r.status = Status{Source: source, Tag: tag, Bytes: n}
	var err error
	if len(payload) != r.size() {
		err = x.lengthError(r, len(payload))
	}
	x.requests.complete(r, err)
}

// SendData is Send of the elements of d, with a note unless n is nil. d is copied.
func (e *Engine) SendData(to Route, d *datatype.Buffer, mode Mode, n *notes.Note) error {
	if to.Peer == ProcNull {
		e.rec.EndOp(to.Op, 0, 0)
		return nil
	}
	size := int(d.Size())
	e.lock()
	began := e.rec.Active.Begin(to.Op, size)
	if n == nil && e.sendDataNow(to, d, mode) {
		e.rec.Active.End(to.Op, size, began)
		e.unlock()
		return nil
	}
	r := e.newBufferRequest(true, to, d, mode, n)
	err := e.sends.start(r)
	if err == nil {
		err = e.requests.waitRequest(r, to.Op)
	}
	e.rec.SetPeer(to.Context, to.Peer, to.Tag)
	e.rec.Active.End(to.Op, size, began)
	e.unlock()
	return err
}

// sendDataNow sends d as one eager message if that is possible immediately.
func (e *Engine) sendDataNow(to Route, d *datatype.Buffer, mode Mode) bool {
	p, n := e.links.peer(to.Peer), int(d.Size())
	if n > p.maxEager || n > p.path.packedPiece || mode != Standard || !(e.hints.plainSends || e.plainSendsIn(to.Context)) {
		return false
	}
	e.sending = *d
	wire.Envelope{Kind: wire.Eager, Context: to.Context, Match: to.Match}.Put(&e.scratch)
	err := e.links.sendPacked(p, e.scratch[:wire.EnvelopeBytes], &e.sending, 0, n)
	e.sending = datatype.Buffer{}
	if err != nil {
		return false // the general case finds out why
	}
	p.link.Out(n)
	return true
}

// newBufferRequest returns a request for the elements of d.
func (e *Engine) newBufferRequest(send bool, rt Route, d *datatype.Buffer, mode Mode, n *notes.Note) *Request {
	r := e.requests.take()
	r.send, r.mode, r.route = send, mode, rt
	e.requests.setData(r, d)
	if n != nil {
		r.setNote(&e.checks.table, n)
	}
	return r
}

// IsendData is Isend of the elements of d, with a note unless n is nil. d is copied.
func (e *Engine) IsendData(to Route, d *datatype.Buffer, mode Mode, n *notes.Note) (Handle, error) {
	e.lock()
	defer e.unlock()
	size := int(d.Size())
	began := e.rec.Active.Begin(to.Op, size)
	r := e.newBufferRequest(true, to, d, mode, n)
	h := r.handle()
	var err error
	if to.Peer != ProcNull && n == nil && e.sendDataNow(to, d, mode) {
		r.status = emptyStatus
		e.requests.complete(r, nil)
	} else {
		err = e.sends.start(r)
	}
	e.rec.SetPeer(to.Context, to.Peer, to.Tag)
	e.rec.Active.End(to.Op, to.Moves(size), began)
	return h, err
}

// RecvData is Recv into the elements of d, with a note unless n is nil. d is copied.
func (e *Engine) RecvData(from Route, d *datatype.Buffer, n *notes.Note) (Status, error) {
	e.lock()
	began := e.beginRecvData(from, d)
	r := e.newBufferRequest(false, from, d, Standard, n)
	e.receives.start(r)
	err := e.requests.waitRequest(r, from.Op)
	st := r.status
	e.rec.SetPeer(from.Context, from.Peer, st.Tag)
	e.rec.Active.End(from.Op, st.Bytes, began)
	e.unlock()
	return st, err
}

// IrecvData is Irecv into the elements of d, with a note unless n is nil. d is copied.
func (e *Engine) IrecvData(from Route, d *datatype.Buffer, n *notes.Note) Handle {
	e.lock()
	defer e.unlock()
	began := e.beginRecvData(from, d)
	r := e.newBufferRequest(false, from, d, Standard, n)
	h := r.handle()
	e.receives.start(r)
	e.rec.SetPeer(from.Context, from.Peer, from.Tag)
	e.rec.Active.End(from.Op, from.Moves(int(d.Size())), began)
	return h
}

// beginRecvData records the beginning of a receive.
func (e *Engine) beginRecvData(from Route, d *datatype.Buffer) (began uint64) {
	if began = e.rec.Active.Begin(from.Op, int(d.Size())); began != 0 {
		e.rec.Active.Matched(e.contexts.table(from.Context).Lengths())
	}
	return began
}
