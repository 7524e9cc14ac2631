package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Send sends x to rank dst. It returns when x may be used again, which may be before or after the message is
// received. A program must not rely on either. MPI-5.0 §3.2.1.
func Send[T any](c *Comm, x []T, dst, tag int) error {
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, perf.Send, x, dst, tag, proto.Standard)
	}
	return public(c.core().Send(perf.Send, core.Bytes(x), dst, tag, proto.Standard))
}

// Ssend is Send that returns only after a receive has matched the message. MPI-5.0 §3.4.
func Ssend[T any](c *Comm, x []T, dst, tag int) error {
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, perf.Ssend, x, dst, tag, proto.Synchronous)
	}
	return public(c.core().Send(perf.Ssend, core.Bytes(x), dst, tag, proto.Synchronous))
}

// Bsend is Send that never waits for the receiver: it copies the message to the buffer from BufferAttach. It fails
// with ErrBuffer if the buffer has no room. MPI-5.0 §3.4.
func Bsend[T any](c *Comm, x []T, dst, tag int) error {
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, perf.Bsend, x, dst, tag, proto.Buffered)
	}
	return public(c.core().Send(perf.Bsend, core.Bytes(x), dst, tag, proto.Buffered))
}

// Rsend is Send for a receive that is known to be posted already. In this library it is the same as Send.
// MPI-5.0 §3.4.
func Rsend[T any](c *Comm, x []T, dst, tag int) error {
	if !core.IsPlain[T](c.core()) {
		return sendElements(c, perf.Rsend, x, dst, tag, proto.Standard)
	}
	return public(c.core().Send(perf.Rsend, core.Bytes(x), dst, tag, proto.Standard))
}

// Isend starts a send. x must not be changed until the request has completed. MPI-5.0 §3.7.2.
func Isend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return isendElements(c, perf.Isend, x, dst, tag, proto.Standard)
	}
	return request(c.core().Isend(perf.Isend, core.Bytes(x), dst, tag, proto.Standard))
}

// Issend starts a send that completes only after a receive has matched it. MPI-5.0 §3.7.2.
func Issend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return isendElements(c, perf.Issend, x, dst, tag, proto.Synchronous)
	}
	return request(c.core().Isend(perf.Issend, core.Bytes(x), dst, tag, proto.Synchronous))
}

// Ibsend starts a buffered send, which has completed when Ibsend returns. MPI-5.0 §3.7.2.
func Ibsend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return isendElements(c, perf.Ibsend, x, dst, tag, proto.Buffered)
	}
	return request(c.core().Isend(perf.Ibsend, core.Bytes(x), dst, tag, proto.Buffered))
}

// Irsend starts a send for a receive that is known to be posted already. MPI-5.0 §3.7.2.
func Irsend[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return isendElements(c, perf.Irsend, x, dst, tag, proto.Standard)
	}
	return request(c.core().Isend(perf.Irsend, core.Bytes(x), dst, tag, proto.Standard))
}

// SendInit creates a persistent send of x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func SendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return sendInitElements(c, "SendInit", x, dst, tag, proto.Standard)
	}
	return request(c.core().SendInit("SendInit", core.Bytes(x), dst, tag, proto.Standard))
}

// SsendInit is SendInit for synchronous sends. MPI-5.0 §3.9.
func SsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return sendInitElements(c, "SsendInit", x, dst, tag, proto.Synchronous)
	}
	return request(c.core().SendInit("SsendInit", core.Bytes(x), dst, tag, proto.Synchronous))
}

// BsendInit is SendInit for buffered sends: Start copies x. MPI-5.0 §3.9.
func BsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return sendInitElements(c, "BsendInit", x, dst, tag, proto.Buffered)
	}
	return request(c.core().SendInit("BsendInit", core.Bytes(x), dst, tag, proto.Buffered))
}

// RsendInit is SendInit for receives that are known to be posted already. MPI-5.0 §3.9.
func RsendInit[T any](c *Comm, x []T, dst, tag int) (Request, error) {
	if !core.IsPlain[T](c.core()) {
		return sendInitElements(c, "RsendInit", x, dst, tag, proto.Standard)
	}
	return request(c.core().SendInit("RsendInit", core.Bytes(x), dst, tag, proto.Standard))
}
