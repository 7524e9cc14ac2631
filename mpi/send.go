package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// A slice of numbers takes the shortest path, which moves bytes, unless calls are checked. All other
// data are views: a slice of structs or arrays is the view of its elements, whose error says if its
// type cannot be sent. An error with which a view was made is returned before anything is sent. The
// memory of a view is in use as that of the slice is.

// Send sends x to rank dst. It returns when x may be used again, which may be before or after the message is
// received. A program must not rely on either. MPI-5.0 §3.2.1.
func Send[T any](c *Comm, x []T, dst, tag int) error {
	// Send does not call sendSlice: it is faster when fewer arguments are kept over the calls.
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, perf.Send, x, dst, tag, proto.Standard)
	}
	return public(c.core().Send(perf.Send, core.Bytes(x), dst, tag, proto.Standard))
}

// Send is [Send] of a view. MPI-5.0 §3.2.1.
func (c *Comm) Send(v View, dst, tag int) error {
	return c.sendView(perf.Send, &v, dst, tag, proto.Standard)
}

// Ssend is Send that returns only after a receive has matched the message. MPI-5.0 §3.4.
func Ssend[T any](c *Comm, x []T, dst, tag int) error {
	return sendSlice(c, perf.Ssend, x, dst, tag, proto.Synchronous)
}

// Ssend is [Ssend] of a view. MPI-5.0 §3.4.
func (c *Comm) Ssend(v View, dst, tag int) error {
	return c.sendView(perf.Ssend, &v, dst, tag, proto.Synchronous)
}

// Bsend is Send that never waits for the receiver: it copies the message to the buffer from BufferAttach. It fails
// with ErrBuffer if the buffer has no room. MPI-5.0 §3.4.
func Bsend[T any](c *Comm, x []T, dst, tag int) error {
	return sendSlice(c, perf.Bsend, x, dst, tag, proto.Buffered)
}

// Bsend is [Bsend] of a view: the data is packed into the attached buffer. MPI-5.0 §3.4.
func (c *Comm) Bsend(v View, dst, tag int) error {
	return c.sendView(perf.Bsend, &v, dst, tag, proto.Buffered)
}

// Rsend is Send for a receive that is known to be posted already. In this library it is the same as Send.
// MPI-5.0 §3.4.
func Rsend[T any](c *Comm, x []T, dst, tag int) error {
	return sendSlice(c, perf.Rsend, x, dst, tag, proto.Standard)
}

// Rsend is [Rsend] of a view. MPI-5.0 §3.4.
func (c *Comm) Rsend(v View, dst, tag int) error {
	return c.sendView(perf.Rsend, &v, dst, tag, proto.Standard)
}

// sendSlice is the send op of a slice in a mode.
func sendSlice[T any](c *Comm, op perf.Op, x []T, dst, tag int, m proto.Mode) error {
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, op, x, dst, tag, m)
	}
	return public(c.core().Send(op, core.Bytes(x), dst, tag, m))
}

// sendElements is sendSlice for data that do not take the shortest path.
func sendElements[T any](c *Comm, op perf.Op, x []T, dst, tag int, m proto.Mode) error {
	v := elements(op.String(), x)
	return c.sendView(op, &v, dst, tag, m)
}

func (c *Comm) sendView(op perf.Op, v *View, dst, tag int, m proto.Mode) error {
	if v.err != nil {
		return c.callError(op.String(), v.err)
	}
	return public(c.core().SendData(op, &v.data, dst, tag, m))
}

// Isend starts a send. x must not be changed until the request has completed. MPI-5.0 §3.7.2.
func Isend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return isendSlice(c, perf.Isend, x, dst, tag, proto.Standard)
}

// Isend is [Isend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Isend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Isend, &v, dst, tag, proto.Standard)
}

// Issend starts a send that completes only after a receive has matched it. MPI-5.0 §3.7.2.
func Issend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return isendSlice(c, perf.Issend, x, dst, tag, proto.Synchronous)
}

// Issend is [Issend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Issend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Issend, &v, dst, tag, proto.Synchronous)
}

// Ibsend starts a buffered send, which has completed when Ibsend returns. MPI-5.0 §3.7.2.
func Ibsend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return isendSlice(c, perf.Ibsend, x, dst, tag, proto.Buffered)
}

// Ibsend is [Ibsend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Ibsend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Ibsend, &v, dst, tag, proto.Buffered)
}

// Irsend starts a send for a receive that is known to be posted already. MPI-5.0 §3.7.2.
func Irsend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return isendSlice(c, perf.Irsend, x, dst, tag, proto.Standard)
}

// Irsend is [Irsend] of a view. MPI-5.0 §3.7.2.
func (c *Comm) Irsend(v View, dst, tag int) (Request, error) {
	return c.isendView(perf.Irsend, &v, dst, tag, proto.Standard)
}

// isendSlice is sendSlice for a send that is started.
func isendSlice[T any](c *Comm, op perf.Op, x []T, dst, tag int, m proto.Mode) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return isendElements(c, op, x, dst, tag, m)
	}
	return request(c.core().Isend(op, core.Bytes(x), dst, tag, m))
}

// isendElements is isendSlice for data that do not take the shortest path.
func isendElements[T any](c *Comm, op perf.Op, x []T, dst, tag int, m proto.Mode) (Request, error) {
	v := elements(op.String(), x)
	return c.isendView(op, &v, dst, tag, m)
}

func (c *Comm) isendView(op perf.Op, v *View, dst, tag int, m proto.Mode) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError(op.String(), v.err)
	}
	return request(c.core().IsendData(op, &v.data, dst, tag, m))
}

// SendInit creates a persistent send of x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func SendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.SendInit(elements("SendInit", x), dst, tag)
}

// SendInit is [SendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) SendInit(v View, dst, tag int) (Request, error) {
	return c.sendInit("SendInit", &v, dst, tag, proto.Standard)
}

// SsendInit is SendInit for synchronous sends. MPI-5.0 §3.9.
func SsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.SsendInit(elements("SsendInit", x), dst, tag)
}

// SsendInit is [SsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) SsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInit("SsendInit", &v, dst, tag, proto.Synchronous)
}

// BsendInit is SendInit for buffered sends: Start copies x. MPI-5.0 §3.9.
func BsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.BsendInit(elements("BsendInit", x), dst, tag)
}

// BsendInit is [BsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) BsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInit("BsendInit", &v, dst, tag, proto.Buffered)
}

// RsendInit is SendInit for receives that are known to be posted already. MPI-5.0 §3.9.
func RsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.RsendInit(elements("RsendInit", x), dst, tag)
}

// RsendInit is [RsendInit] of a view. MPI-5.0 §3.9.
func (c *Comm) RsendInit(v View, dst, tag int) (Request, error) {
	return c.sendInit("RsendInit", &v, dst, tag, proto.Standard)
}

func (c *Comm) sendInit(op string, v *View, dst, tag int, m proto.Mode) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError(op, v.err)
	}
	return request(c.core().SendInit(op, &v.data, dst, tag, m))
}

// SendContext is Send that ends when ctx ends. If err is nil, the message was sent as Send does, even if ctx has ended
// meanwhile. If err matches the error of ctx, no receive gets the message, and x may be used again. If ctx has ended before
// the call, it sends nothing.
//
// A short message is sent without waiting for the receiver. A long one that no receive has matched is withdrawn when ctx
// ends. The call returns when the receiver's process has confirmed that, so it may return later than ctx ends if that
// process computes. To stop at once use Isend and [Request.WaitContext]: the send then continues. MPI-5.0 §3.2.1, §3.8.4.
func SendContext[T any](ctx context.Context, c *Comm, x []T, dst, tag int) error {
	v := elements("Send", x)
	return c.sendViewContext(ctx, perf.Send, &v, dst, tag, proto.Standard)
}

// SendContext is the function [SendContext] of a view. MPI-5.0 §3.2.1, §3.8.4.
func (c *Comm) SendContext(ctx context.Context, v View, dst, tag int) error {
	return c.sendViewContext(ctx, perf.Send, &v, dst, tag, proto.Standard)
}

// SsendContext is Ssend that ends when ctx ends, as [SendContext] does. If err is nil, a receive has matched the message.
// MPI-5.0 §3.4, §3.8.4.
func SsendContext[T any](ctx context.Context, c *Comm, x []T, dst, tag int) error {
	v := elements("Ssend", x)
	return c.sendViewContext(ctx, perf.Ssend, &v, dst, tag, proto.Synchronous)
}

// SsendContext is the function [SsendContext] of a view. MPI-5.0 §3.4, §3.8.4.
func (c *Comm) SsendContext(ctx context.Context, v View, dst, tag int) error {
	return c.sendViewContext(ctx, perf.Ssend, &v, dst, tag, proto.Synchronous)
}

func (c *Comm) sendViewContext(ctx context.Context, op perf.Op, v *View, dst, tag int, m proto.Mode) error {
	if v.err != nil {
		return c.callError(op.String(), v.err)
	}
	return public(core.SendDataContext(ctx, c.core(), op, &v.data, dst, tag, m))
}
