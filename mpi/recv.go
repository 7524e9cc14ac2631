package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Recv receives a message from rank src, or AnySource, with a tag, or AnyTag, into x. If the message is longer than
// x, it fails with ErrTruncate: x contains the beginning of the message, the rest is discarded, and later messages
// are not affected. MPI-5.0 §3.2.4.
func Recv[T any](c *Comm, x []T, src, tag int) (Status, error) {
	if !core.IsPlain[T](c.core()) {
		return recvElements(c, x, src, tag)
	}
	return status(c.core().Recv(core.Bytes(x), src, tag))
}

// Irecv starts a receive. x must not be accessed until the request has completed. MPI-5.0 §3.7.2.
func Irecv[T any](c *Comm, x []T, src, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return irecvElements(c, x, src, tag)
	}
	return request(c.core().Irecv(core.Bytes(x), src, tag))
}

// RecvInit creates a persistent receive into x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func RecvInit[T any](c *Comm, x []T, src, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return recvInitElements(c, x, src, tag)
	}
	return request(c.core().RecvInit(core.Bytes(x), src, tag))
}
