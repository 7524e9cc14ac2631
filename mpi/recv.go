package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Recv receives a message from rank src, or AnySource, with a tag, or AnyTag, into x. If the message is longer than
// x, it fails with ErrTruncate: x contains the beginning of the message, the rest is discarded, and later messages
// are not affected. MPI-5.0 §3.2.4.
func Recv[T any](c *Comm, x []T, src, tag int) (Status, error) {
	if !core.IsPlain[T](c.core()) {
		return recvElements(c, x, src, tag)
	}
	return status(c.core().Recv(core.Bytes(x), src, tag))
}

// recvElements is Recv for data that do not take the shortest path.
func recvElements[T any](c *Comm, x []T, src, tag int) (Status, error) {
	return c.Recv(elements("Recv", x), src, tag)
}

// Recv is [Recv] into a view. It fails with ErrType if entries of the view's datatype overlap, as all calls that store data do.
// MPI-5.0 §3.2.4.
func (c *Comm) Recv(v View, src, tag int) (Status, error) {
	if v.err != nil {
		return failedStatus(c, "Recv", v.err)
	}
	return status(c.core().RecvData(&v.data, src, tag))
}

// failedStatus returns the results of a call on c that fails because of a view.
func failedStatus(c *Comm, op string, err error) (Status, error) {
	return statusOf(core.EmptyStatus()), c.callError(op, err)
}

// Irecv starts a receive. x must not be accessed until the request has completed. MPI-5.0 §3.7.2.
func Irecv[T any](c *Comm, x []T, src, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return irecvElements(c, x, src, tag)
	}
	return request(c.core().Irecv(core.Bytes(x), src, tag))
}

// irecvElements is a function of its own so that Irecv of numbers needs no room for a view.
func irecvElements[T any](c *Comm, x []T, src, tag int) (Request, error) {
	return c.Irecv(elements("Irecv", x), src, tag)
}

// Irecv is [Irecv] into a view. MPI-5.0 §3.7.2.
func (c *Comm) Irecv(v View, src, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("Irecv", v.err)
	}
	return request(c.core().IrecvData(&v.data, src, tag))
}

// RecvInit creates a persistent receive into x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func RecvInit[T any](c *Comm, x []T, src, tag int) (Request, error) {
	return c.RecvInit(elements("RecvInit", x), src, tag)
}

// RecvInit is [RecvInit] into a view. MPI-5.0 §3.9.
func (c *Comm) RecvInit(v View, src, tag int) (Request, error) {
	if v.err != nil {
		return Request{}, c.callError("RecvInit", v.err)
	}
	return request(c.core().RecvInit(&v.data, src, tag))
}

// RecvContext is Recv that ends when ctx ends. If err is nil the message was received, even if ctx has ended
// meanwhile. If err matches the error of ctx, no message was received: x is unchanged, [Status.Cancelled] reports true,
// and the message goes to the next receive that matches it. If ctx has ended before the call, it receives nothing.
//
// A message that has been matched is received to its end. So the call may return later than ctx ends if a long message
// is on its way and its sender is slow. MPI-5.0 §3.2.4, §3.8.4.
func RecvContext[T any](ctx context.Context, c *Comm, x []T, src, tag int) (Status, error) {
	if core.IsPlain[T](c.core()) {
		return status(core.RecvContext(ctx, c.core(), core.Bytes(x), src, tag))
	}
	return c.RecvContext(ctx, elements("Recv", x), src, tag)
}

// RecvContext is [RecvContext] into a view. MPI-5.0 §3.2.4, §3.8.4.
func (c *Comm) RecvContext(ctx context.Context, v View, src, tag int) (Status, error) {
	if v.err != nil {
		return failedStatus(c, "Recv", v.err)
	}
	return status(core.RecvDataContext(ctx, c.core(), &v.data, src, tag))
}
