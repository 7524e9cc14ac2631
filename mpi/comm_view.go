package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// The methods of this file are the functions of the same names with views instead of slices. An error with which a view was made
// is returned before anything is sent. The memory of a view is in use as that of the slice is.

// Send is [Send] of a view. MPI-5.0 §3.2.1.
func (c *Comm) Send(v View, dst, tag int) error {
	return c.sendView(perf.Send, &v, dst, tag, proto.Standard)
}

// Ssend is [Ssend] of a view. MPI-5.0 §3.4.
func (c *Comm) Ssend(v View, dst, tag int) error {
	return c.sendView(perf.Ssend, &v, dst, tag, proto.Synchronous)
}

// Bsend is [Bsend] of a view: the data is packed into the attached buffer. MPI-5.0 §3.4.
func (c *Comm) Bsend(v View, dst, tag int) error {
	return c.sendView(perf.Bsend, &v, dst, tag, proto.Buffered)
}

// Rsend is [Rsend] of a view. MPI-5.0 §3.4.
func (c *Comm) Rsend(v View, dst, tag int) error {
	return c.sendView(perf.Rsend, &v, dst, tag, proto.Standard)
}

func (c *Comm) sendView(op perf.Op, v *View, dst, tag int, m proto.Mode) error {
	if v.err != nil {
		return c.callError(op.String(), v.err)
	}
	return public(c.core().SendData(op, &v.data, dst, tag, m))
}

// Isend is [Isend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Isend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Isend, &v, dst, tag, proto.Standard)
}

// Issend is [Issend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Issend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Issend, &v, dst, tag, proto.Synchronous)
}

// Ibsend is [Ibsend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Ibsend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Ibsend, &v, dst, tag, proto.Buffered)
}

// Irsend is [Irsend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Irsend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Irsend, &v, dst, tag, proto.Standard)
}

func (c *Comm) isendView(op perf.Op, v *View, dst, tag int, m proto.Mode) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError(op.String(), v.err)
	}
	return request(c.core().IsendData(op, &v.data, dst, tag, m))
}

// SendInit is [SendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) SendInit(v View, dst, tag int) (Request, error) {
	return c.sendInitView("SendInit", &v, dst, tag, proto.Standard)
}

// SsendInit is [SsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) SsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInitView("SsendInit", &v, dst, tag, proto.Synchronous)
}

// BsendInit is [BsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) BsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInitView("BsendInit", &v, dst, tag, proto.Buffered)
}

// RsendInit is [RsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) RsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInitView("RsendInit", &v, dst, tag, proto.Standard)
}

func (c *Comm) sendInitView(op string, v *View, dst, tag int, m proto.Mode) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError(op, v.err)
	}
	return request(c.core().SendInitData(op, &v.data, dst, tag, m))
}

// Recv is [Recv] into a view. It fails with ErrType if entries of the view's datatype overlap, as all calls that store data do.
// MPI-5.0 §3.2.4.
func (c *Comm) Recv(v View, src, tag int) (Status, error) {
	if v.err != nil {
		return statusOf(core.EmptyStatus()), c.callError("Recv", v.err)
	}
	return status(c.core().RecvData(&v.data, src, tag))
}

// Irecv is [Irecv] into a view. MPI-5.0 §3.7.2.
func (c *Comm) Irecv(v View, src, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("Irecv", v.err)
	}
	return request(c.core().IrecvData(&v.data, src, tag))
}

// RecvInit is [RecvInit] into a view. MPI-5.0 §3.9.
func (c *Comm) RecvInit(v View, src, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("RecvInit", v.err)
	}
	return request(c.core().RecvInitData(&v.data, src, tag))
}

// Sendrecv is [Sendrecv] of two views. They may be parts of the same slice, such as two columns of a matrix, but must not have
// elements in common. MPI-5.0 §3.11.
func (c *Comm) Sendrecv(sv View, dst, stag int, rv View, src, rtag int) (Status, error) {
	if sv.err != nil || rv.err != nil {
		return statusOf(core.EmptyStatus()), c.callError("Sendrecv", firstError(&sv, &rv))
	}
	return status(c.core().SendrecvData(&sv.data, dst, stag, &rv.data, src, rtag))
}

// SendrecvReplace sends the data of a view, and receives into it. MPI-5.0 §3.11.
func (c *Comm) SendrecvReplace(v View, dst, stag, src, rtag int) (Status, error) {
	if v.err != nil {
		return statusOf(core.EmptyStatus()), c.callError("SendrecvReplace", v.err)
	}
	return status(c.core().SendrecvReplaceData(&v.data, dst, stag, src, rtag))
}

// callError returns the error of a view or of elements as that of a call on c, whose error handler is called; nil for nil.
func (c *Comm) callError(op string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	cause := e.Err
	if e.Op != op { // the call that made the view
		cause = e
	}
	return public(c.core().CallError(op, core.Class(e.Class), cause))
}

func firstError(a, b *View) error {
	if a.err != nil {
		return a.err
	}
	return b.err
}

// Mrecv is [Mrecv] into a view. MPI-5.0 §3.8.3.
func (m *Message) Mrecv(v View) (Status, error) {
	if v.err != nil {
		return statusOf(core.EmptyStatus()), (*Comm)(m.core().Comm()).callError("Mrecv", v.err)
	}
	return status(m.core().MrecvData(&v.data))
}

// Imrecv is [Imrecv] into a view. MPI-5.0 §3.8.3.
func (m *Message) Imrecv(v View) (Request, error) {
	if v.err != nil {
		return Request{}, (*Comm)(m.core().Comm()).callError("Imrecv", v.err)
	}
	return request(m.core().ImrecvData(&v.data))
}
