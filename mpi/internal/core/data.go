package core

import (
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// The calls in this file send and receive the elements of a derived datatype. Elements that are one block of memory take the
// paths of bytes, unless calls are checked: then their signature travels with the message. The buffer is copied, so that it
// does not escape from the caller.

// sendRoute checks the arguments of a send and returns its route.
func (c *Comm) sendRoute(op string, dst, tag int) (proto.Route, error) {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		return c.slowSendRoute(op, dst, tag)
	}
	return to, nil
}

// asBytes returns the memory of d if a call can treat it as bytes.
func (c *Comm) asBytes(d *datatype.Buffer) ([]byte, bool) {
	if c.IsChecked() {
		return nil, false
	}
	return d.Contiguous()
}

// checkSink returns an error if entries of d overlap, since they are to receive data.
func (c *Comm) checkSink(op string, d *datatype.Buffer) error {
	if err := d.CheckOverlap(); err != nil {
		return c.newError(op, ErrType, err)
	}
	return nil
}

// dataNote returns the note of a call with derived data, and records the call; nil if calls are not checked.
func (c *Comm) dataNote(call perf.Op, d *datatype.Buffer) *notes.Note {
	if !c.checks {
		return nil
	}
	c.proc.engine.Recording().Called(call)
	n := &notes.Note{Type: d.Kind().String(), Op: call, Where: callPosition()}
	if d.Kind() == 0 && d.Size() != 0 {
		n.SetMixed(d)
	}
	return n
}

// SendData sends the elements of d to rank dst in a mode.
func (c *Comm) SendData(op perf.Op, d *datatype.Buffer, dst, tag int, m proto.Mode) error {
	if b, ok := c.asBytes(d); ok {
		return c.Send(op, b, dst, tag, m)
	}
	to, err := c.sendRoute(op.String(), dst, tag)
	if err != nil {
		return err
	}
	to.Op = op
	if err := c.engine.SendData(to, d, m, c.dataNote(op, d)); err != nil {
		return c.wrapError(op.String(), err)
	}
	return nil
}

// IsendData starts a send of the elements of d.
func (c *Comm) IsendData(op perf.Op, d *datatype.Buffer, dst, tag int, m proto.Mode) (Request, error) {
	if b, ok := c.asBytes(d); ok {
		return c.Isend(op, b, dst, tag, m)
	}
	to, err := c.sendRoute(op.String(), dst, tag)
	if err != nil {
		return Request{}, err
	}
	to.Op = op
	h, err := c.engine.IsendData(to, d, m, c.dataNote(op, d))
	if err != nil {
		return Request{}, c.wrapError(op.String(), err)
	}
	return Request{h}, nil
}

// SendInitData creates a persistent send of the elements of d.
func (c *Comm) SendInitData(op string, d *datatype.Buffer, dst, tag int, m proto.Mode) (Request, error) {
	if b, ok := c.asBytes(d); ok {
		return c.SendInit(op, b, dst, tag, m)
	}
	to, err := c.sendRoute(op, dst, tag)
	if err != nil {
		return Request{}, err
	}
	h := c.engine.SendInitData(to, d, m)
	if n := c.dataNote(perf.Start, d); n != nil {
		c.engine.Checks().SetNote(h, n)
	}
	return Request{h}, nil
}

// RecvData receives a message into the elements of d.
func (c *Comm) RecvData(d *datatype.Buffer, src, tag int) (Status, error) {
	if b, ok := c.asBytes(d); ok {
		return c.Recv(b, src, tag)
	}
	const op = "Recv"
	from, err := c.recvRoute(op, src, tag)
	if err == nil {
		err = c.checkSink(op, d)
	}
	if err != nil {
		return emptyStatus, err
	}
	from.Op = perf.Recv
	st, err := c.engine.RecvData(from, d, c.dataNote(perf.Recv, d))
	return statusOf(st), c.wrapError(op, err)
}

// IrecvData starts a receive into the elements of d.
func (c *Comm) IrecvData(d *datatype.Buffer, src, tag int) (Request, error) {
	if b, ok := c.asBytes(d); ok {
		return c.Irecv(b, src, tag)
	}
	h, err := c.irecvData(perf.Irecv, d, src, tag)
	return Request{h}, err
}

func (c *Comm) irecvData(call perf.Op, d *datatype.Buffer, src, tag int) (proto.Handle, error) {
	from, err := c.recvRoute(call.String(), src, tag)
	if err == nil {
		err = c.checkSink(call.String(), d)
	}
	if err != nil {
		return proto.Handle{}, err
	}
	from.Op = call
	return c.engine.IrecvData(from, d, c.dataNote(call, d)), nil
}

// RecvInitData creates a persistent receive into the elements of d.
func (c *Comm) RecvInitData(d *datatype.Buffer, src, tag int) (Request, error) {
	if b, ok := c.asBytes(d); ok {
		return c.RecvInit(b, src, tag)
	}
	from, err := c.recvRoute("RecvInit", src, tag)
	if err == nil {
		err = c.checkSink("RecvInit", d)
	}
	if err != nil {
		return Request{}, err
	}
	h := c.engine.RecvInitData(from, d)
	if n := c.dataNote(perf.Start, d); n != nil {
		c.engine.Checks().SetNote(h, n)
	}
	return Request{h}, nil
}

// SendrecvData sends the elements of s and receives into those of r at the same time. They may be in the same memory, but no byte
// may be in both.
func (c *Comm) SendrecvData(s *datatype.Buffer, dst, stag int, r *datatype.Buffer, src, rtag int) (Status, error) {
	sb, sOK := c.asBytes(s)
	rb, rOK := c.asBytes(r)
	if sOK && rOK {
		return c.Sendrecv(sb, dst, stag, rb, src, rtag)
	}
	const call = perf.Sendrecv
	to, err := c.sendRoute(call.String(), dst, stag)
	if err != nil {
		return emptyStatus, err
	}
	began := c.engine.Recording().BeginOp(call, int(s.Size()+r.Size()))
	h, err := c.irecvData(call.Within(), r, src, rtag)
	if err != nil {
		return emptyStatus, err
	}
	to.Op = call.Within()
	if err := c.engine.SendData(to, s, proto.Standard, c.dataNote(to.Op, s)); err != nil {
		c.cancelRecv(h)
		return emptyStatus, c.wrapError(call.String(), err)
	}
	st, err := c.engine.WaitAs(call.Within(), h)
	c.engine.Recording().EndOp(call, to.Moves(int(s.Size()))+st.Bytes, began)
	return statusOf(st), c.wrapError(call.String(), err)
}

// SendrecvReplaceData sends the elements of d, and receives into them.
func (c *Comm) SendrecvReplaceData(d *datatype.Buffer, dst, stag, src, rtag int) (Status, error) {
	const call = perf.Sendrecv
	to, err := c.sendRoute("SendrecvReplace", dst, stag)
	if err != nil {
		return emptyStatus, err
	}
	m := c.proc.memory.take(int(d.Size()))
	defer m.release()
	d.Pack(m.b, 0)
	began := c.engine.Recording().BeginOp(call, 2*int(d.Size()))
	note := c.dataNote(call.Within(), d)
	h, err := c.irecvData(call.Within(), d, src, rtag)
	if err != nil {
		return emptyStatus, err
	}
	to.Op = call.Within()
	var out proto.Handle
	if note != nil {
		out, err = c.engine.IsendNoted(to, m.b, proto.Standard, note)
	} else {
		out, err = c.engine.Isend(to, m.b, proto.Standard)
	}
	if err == nil {
		_, err = c.engine.WaitAs(call.Within(), out)
	}
	if err != nil {
		c.cancelRecv(h)
		return emptyStatus, c.wrapError("SendrecvReplace", err)
	}
	st, err := c.engine.WaitAs(call.Within(), h)
	c.engine.Recording().EndOp(call, to.Moves(int(d.Size()))+st.Bytes, began)
	return statusOf(st), c.wrapError("SendrecvReplace", err)
}

// MrecvData receives the message into the elements of d.
func (m *Message) MrecvData(d *datatype.Buffer) (Status, error) {
	began := uint64(0)
	if !m.isNone() {
		began = m.comm.engine.Recording().BeginOp(perf.Mrecv, int(d.Size()))
	}
	r, err := m.recvData(perf.Mrecv.Within(), d)
	if err != nil {
		return emptyStatus, err
	}
	st, err := m.comm.engine.WaitAs(perf.Mrecv.Within(), r.h)
	m.comm.engine.Recording().EndOp(perf.Mrecv, st.Bytes, began)
	return statusOf(st), m.comm.wrapError("Mrecv", err)
}

// ImrecvData starts to receive the message into the elements of d.
func (m *Message) ImrecvData(d *datatype.Buffer) (Request, error) { return m.recvData(perf.Imrecv, d) }

func (m *Message) recvData(op perf.Op, d *datatype.Buffer) (Request, error) {
	if !m.isNone() {
		if err := m.comm.checkSink(op.String(), d); err != nil {
			return Request{}, err
		}
	}
	if done, r, err := m.take(op); done {
		return r, err
	}
	if b, ok := m.comm.asBytes(d); ok {
		return Request{m.comm.engine.RecvMatched(op, m.msg, b)}, nil
	}
	return Request{m.comm.engine.RecvMatchedData(op, m.msg, d, m.comm.dataNote(op, d))}, nil
}
