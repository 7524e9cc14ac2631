package core

import (
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// A datatype.Buffer describes the data of any message: numbers, structs or the elements of a
// derived datatype. All forms of sends and receives take one. Send, Isend, Recv, Irecv, Sendrecv
// and RecvContext also exist for bytes, because programs call them most: these do not ask whether
// calls are checked, so a caller does so first.
//
// Data that are one block of memory take the paths of bytes, unless calls are checked: then a note
// with their type travels with the message. The buffer is copied, so that it does not escape from
// the caller.

// asBytes returns the memory of d if a call can treat it as bytes.
func (c *Comm) asBytes(d *datatype.Buffer) ([]byte, bool) {
	if c.isChecked() {
		return nil, false
	}
	return d.Contiguous()
}

// note returns the note of a call with the elements of d, and records the call; nil if calls are
// not checked.
func (c *Comm) note(call perf.Op, d *datatype.Buffer) *notes.Note {
	if !c.checks {
		return nil
	}
	c.engine.Recording().Called(call)
	n := &notes.Note{Type: d.ElementKind().String(), Op: call, Where: callPosition()}
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
	return c.wrapError(op.String(), c.engine.SendData(to, d, m, c.note(op, d)))
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
	h, err := c.engine.IsendData(to, d, m, c.note(op, d))
	if err != nil {
		return Request{}, c.wrapError(op.String(), err)
	}
	return Request{h}, nil
}

// SendInit creates a persistent send of the elements of d.
func (c *Comm) SendInit(op string, d *datatype.Buffer, dst, tag int, m proto.Mode) (Request, error) {
	to, err := c.sendRoute(op, dst, tag)
	if err != nil {
		return Request{}, err
	}
	return c.persistent(c.engine.SendInit(to, d, m), d), nil
}

// persistent returns a new persistent request for the elements of d.
func (c *Comm) persistent(h proto.Handle, d *datatype.Buffer) Request {
	if n := c.note(perf.Start, d); n != nil {
		c.engine.Checks().SetNote(h, n)
	}
	return Request{h}
}

// sinkRoute checks the arguments of a receive into the elements of d and returns its route. Entries
// of d must not overlap.
func (c *Comm) sinkRoute(op string, d *datatype.Buffer, src, tag int) (proto.Route, error) {
	from, err := c.recvRoute(op, src, tag)
	if err == nil {
		err = c.wrapError(op, checkSink(d))
	}
	return from, err
}

// checkSink returns an error if entries of d overlap, since they are to receive data.
func checkSink(d *datatype.Buffer) error {
	if err := d.CheckOverlap(); err != nil {
		return WithClass(ErrType, err)
	}
	return nil
}

// RecvData receives a message into the elements of d.
func (c *Comm) RecvData(d *datatype.Buffer, src, tag int) (Status, error) {
	if b, ok := c.asBytes(d); ok {
		return c.Recv(b, src, tag)
	}
	const call = perf.Recv
	from, err := c.sinkRoute(call.String(), d, src, tag)
	if err != nil {
		return emptyStatus, err
	}
	from.Op = call
	st, err := c.engine.RecvData(from, d, c.note(call, d))
	return statusOf(st), c.wrapError(call.String(), err)
}

// IrecvData starts a receive into the elements of d.
func (c *Comm) IrecvData(d *datatype.Buffer, src, tag int) (Request, error) {
	if b, ok := c.asBytes(d); ok {
		return c.Irecv(b, src, tag)
	}
	const call = perf.Irecv
	from, err := c.sinkRoute(call.String(), d, src, tag)
	if err != nil {
		return Request{}, err
	}
	from.Op = call
	return Request{c.engine.IrecvData(from, d, c.note(call, d))}, nil
}

// RecvInit creates a persistent receive into the elements of d.
func (c *Comm) RecvInit(d *datatype.Buffer, src, tag int) (Request, error) {
	from, err := c.sinkRoute("RecvInit", d, src, tag)
	if err != nil {
		return Request{}, err
	}
	return c.persistent(c.engine.RecvInit(from, d), d), nil
}
