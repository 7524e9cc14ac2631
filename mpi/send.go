package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Send sends x to rank dst. It returns when x may be used again, which may be before the message is received, or not
// before: a program must not rely on either.
// MPI-5.0 §3.2.1.
func Send[T Elem](c *Comm, x []T, dst, tag int) error {
	return c.send(perf.Send, bytesOf(x), dst, tag, proto.Standard)
}

// Ssend is Send that returns only after the message has been matched by a receive.
// MPI-5.0 §3.4.
func Ssend[T Elem](c *Comm, x []T, dst, tag int) error {
	return c.send(perf.Ssend, bytesOf(x), dst, tag, proto.Synchronous)
}

// Bsend is Send that never waits for the receiver: the message is copied to the buffer given with BufferAttach.
// ErrBuffer if that has no room. MPI-5.0 §3.4.
func Bsend[T Elem](c *Comm, x []T, dst, tag int) error {
	return c.send(perf.Bsend, bytesOf(x), dst, tag, proto.Buffered)
}

// Rsend is Send for a receive that is known to be posted already; here it is the same as Send.
// MPI-5.0 §3.4.
func Rsend[T Elem](c *Comm, x []T, dst, tag int) error {
	return c.send(perf.Rsend, bytesOf(x), dst, tag, proto.Standard)
}

// Isend begins a send. x may be read until the request has completed. MPI-5.0 §3.7.2.
func Isend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.isend(perf.Isend, bytesOf(x), dst, tag, proto.Standard)
}

// Issend begins a send that completes only after it has been matched. MPI-5.0 §3.7.2.
func Issend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.isend(perf.Issend, bytesOf(x), dst, tag, proto.Synchronous)
}

// Ibsend begins a buffered send, and has completed when it returns. MPI-5.0 §3.7.2.
func Ibsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.isend(perf.Ibsend, bytesOf(x), dst, tag, proto.Buffered)
}

// Irsend begins a send for a receive that is known to be posted already. MPI-5.0 §3.7.2.
func Irsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.isend(perf.Irsend, bytesOf(x), dst, tag, proto.Standard)
}

// SendInit makes a persistent send of x, which [Request.Start] begins, any number of times. MPI-5.0 §3.9.
func SendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.sendInit("SendInit", bytesOf(x), dst, tag, proto.Standard)
}

// SsendInit is SendInit for synchronous sends. MPI-5.0 §3.9.
func SsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.sendInit("SsendInit", bytesOf(x), dst, tag, proto.Synchronous)
}

// BsendInit is SendInit for buffered sends: Start copies x. MPI-5.0 §3.9.
func BsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.sendInit("BsendInit", bytesOf(x), dst, tag, proto.Buffered)
}

// RsendInit is SendInit for sends to receives that are posted already. MPI-5.0 §3.9.
func RsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	return c.sendInit("RsendInit", bytesOf(x), dst, tag, proto.Standard)
}

func (c *Comm) send(op perf.Op, b []byte, dst, tag int, m proto.Mode) error {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op.String(), dst, tag); err != nil {
			return err
		}
	}
	to.Op = op
	if err := c.engine.Send(to, b, m); err != nil {
		return c.wrapError(op.String(), err)
	}
	return nil
}

func (c *Comm) isend(op perf.Op, b []byte, dst, tag int, m proto.Mode) (Request, error) {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op.String(), dst, tag); err != nil {
			return Request{}, err
		}
	}
	to.Op = op
	h, err := c.engine.Isend(to, b, m)
	if err != nil {
		return Request{}, c.wrapError(op.String(), err)
	}
	return Request{h}, nil
}

func (c *Comm) sendInit(op string, b []byte, dst, tag int, m proto.Mode) (Request, error) {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op, dst, tag); err != nil {
			return Request{}, err
		}
	}
	return Request{c.engine.SendInit(to, b, m)}, nil
}
