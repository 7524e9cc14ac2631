package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Send sends x to rank dst. It returns when x may be used again, which may be before or after the message is
// received. A program must not rely on either. MPI-5.0 §3.2.1.
func Send[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.core().IsChecked() {
		return public(c.core().SendChecked(perf.Send, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return public(c.core().Send(perf.Send, core.Bytes(x), dst, tag, proto.Standard))
}

// Ssend is Send that returns only after a receive has matched the message. MPI-5.0 §3.4.
func Ssend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.core().IsChecked() {
		return public(c.core().SendChecked(perf.Ssend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Synchronous))
	}
	return public(c.core().Send(perf.Ssend, core.Bytes(x), dst, tag, proto.Synchronous))
}

// Bsend is Send that never waits for the receiver: it copies the message to the buffer from BufferAttach. It fails
// with ErrBuffer if the buffer has no room. MPI-5.0 §3.4.
func Bsend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.core().IsChecked() {
		return public(c.core().SendChecked(perf.Bsend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Buffered))
	}
	return public(c.core().Send(perf.Bsend, core.Bytes(x), dst, tag, proto.Buffered))
}

// Rsend is Send for a receive that is known to be posted already. In this library it is the same as Send.
// MPI-5.0 §3.4.
func Rsend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.core().IsChecked() {
		return public(c.core().SendChecked(perf.Rsend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return public(c.core().Send(perf.Rsend, core.Bytes(x), dst, tag, proto.Standard))
}

// Isend starts a send. x must not be changed until the request has completed. MPI-5.0 §3.7.2.
func Isend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().IsendChecked(perf.Isend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return request(c.core().Isend(perf.Isend, core.Bytes(x), dst, tag, proto.Standard))
}

// Issend starts a send that completes only after a receive has matched it. MPI-5.0 §3.7.2.
func Issend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().IsendChecked(perf.Issend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Synchronous))
	}
	return request(c.core().Isend(perf.Issend, core.Bytes(x), dst, tag, proto.Synchronous))
}

// Ibsend starts a buffered send, which has completed when Ibsend returns. MPI-5.0 §3.7.2.
func Ibsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().IsendChecked(perf.Ibsend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Buffered))
	}
	return request(c.core().Isend(perf.Ibsend, core.Bytes(x), dst, tag, proto.Buffered))
}

// Irsend starts a send for a receive that is known to be posted already. MPI-5.0 §3.7.2.
func Irsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().IsendChecked(perf.Irsend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return request(c.core().Isend(perf.Irsend, core.Bytes(x), dst, tag, proto.Standard))
}

// SendInit creates a persistent send of x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func SendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().SendInitChecked("SendInit", core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return request(c.core().SendInit("SendInit", core.Bytes(x), dst, tag, proto.Standard))
}

// SsendInit is SendInit for synchronous sends. MPI-5.0 §3.9.
func SsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().SendInitChecked("SsendInit", core.Bytes(x), core.KindOf[T](), dst, tag, proto.Synchronous))
	}
	return request(c.core().SendInit("SsendInit", core.Bytes(x), dst, tag, proto.Synchronous))
}

// BsendInit is SendInit for buffered sends: Start copies x. MPI-5.0 §3.9.
func BsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().SendInitChecked("BsendInit", core.Bytes(x), core.KindOf[T](), dst, tag, proto.Buffered))
	}
	return request(c.core().SendInit("BsendInit", core.Bytes(x), dst, tag, proto.Buffered))
}

// RsendInit is SendInit for receives that are known to be posted already. MPI-5.0 §3.9.
func RsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.core().IsChecked() {
		return request(c.core().SendInitChecked("RsendInit", core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
	}
	return request(c.core().SendInit("RsendInit", core.Bytes(x), dst, tag, proto.Standard))
}
