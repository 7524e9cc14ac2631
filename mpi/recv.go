package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/perf"
)

// Recv receives a message from rank src, or AnySource, with a tag, or AnyTag, into x. If the message is longer than
// x, it fails with ErrTruncate: x contains the beginning of the message, the rest is discarded, and later messages
// are not affected. MPI-5.0 §3.2.4.
func Recv[T Elem](c *Comm, x []T, src, tag int) (Status, error) {
	if c.core().IsChecked() {
		return status(c.core().RecvChecked(core.Bytes(x), core.KindOf[T](), src, tag))
	}
	return status(c.core().Recv(core.Bytes(x), src, tag))
}

// Irecv starts a receive. x must not be accessed until the request has completed. MPI-5.0 §3.7.2.
func Irecv[T Elem](c *Comm, x []T, src, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().IrecvChecked(perf.Irecv, core.Bytes(x), core.KindOf[T](), src, tag))
	}
	return request(c.core().Irecv(core.Bytes(x), src, tag))
}

// RecvInit creates a persistent receive into x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func RecvInit[T Elem](c *Comm, x []T, src, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().RecvInitChecked(core.Bytes(x), core.KindOf[T](), src, tag))
	}
	return request(c.core().RecvInit(core.Bytes(x), src, tag))
}
