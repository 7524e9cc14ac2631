package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Send sends x to rank dst. It returns when x may be used again, which may be before or after the message is
// received. A program must not rely on either. MPI-5.0 §3.2.1.
func Send[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.isChecked() {
		return c.sendChecked(perf.Send, bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
	return c.send(perf.Send, bytesOf(x), dst, tag, proto.Standard)
}

// Ssend is Send that returns only after a receive has matched the message. MPI-5.0 §3.4.
func Ssend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.isChecked() {
		return c.sendChecked(perf.Ssend, bytesOf(x), kindOf[T](), dst, tag, proto.Synchronous)
	}
	return c.send(perf.Ssend, bytesOf(x), dst, tag, proto.Synchronous)
}

// Bsend is Send that never waits for the receiver: it copies the message to the buffer from BufferAttach. It fails
// with ErrBuffer if the buffer has no room. MPI-5.0 §3.4.
func Bsend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.isChecked() {
		return c.sendChecked(perf.Bsend, bytesOf(x), kindOf[T](), dst, tag, proto.Buffered)
	}
	return c.send(perf.Bsend, bytesOf(x), dst, tag, proto.Buffered)
}

// Rsend is Send for a receive that is known to be posted already. In this library it is the same as Send.
// MPI-5.0 §3.4.
func Rsend[T Elem](c *Comm, x []T, dst, tag int) error {
	if c.isChecked() {
		return c.sendChecked(perf.Rsend, bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
	return c.send(perf.Rsend, bytesOf(x), dst, tag, proto.Standard)
}

// Isend starts a send. x must not be changed until the request has completed. MPI-5.0 §3.7.2.
func Isend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.isendChecked(perf.Isend, bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
	return c.isend(perf.Isend, bytesOf(x), dst, tag, proto.Standard)
}

// Issend starts a send that completes only after a receive has matched it. MPI-5.0 §3.7.2.
func Issend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.isendChecked(perf.Issend, bytesOf(x), kindOf[T](), dst, tag, proto.Synchronous)
	}
	return c.isend(perf.Issend, bytesOf(x), dst, tag, proto.Synchronous)
}

// Ibsend starts a buffered send, which has completed when Ibsend returns. MPI-5.0 §3.7.2.
func Ibsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.isendChecked(perf.Ibsend, bytesOf(x), kindOf[T](), dst, tag, proto.Buffered)
	}
	return c.isend(perf.Ibsend, bytesOf(x), dst, tag, proto.Buffered)
}

// Irsend starts a send for a receive that is known to be posted already. MPI-5.0 §3.7.2.
func Irsend[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.isendChecked(perf.Irsend, bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
	return c.isend(perf.Irsend, bytesOf(x), dst, tag, proto.Standard)
}

// SendInit creates a persistent send of x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func SendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.sendInitChecked("SendInit", bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
	return c.sendInit("SendInit", bytesOf(x), dst, tag, proto.Standard)
}

// SsendInit is SendInit for synchronous sends. MPI-5.0 §3.9.
func SsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.sendInitChecked("SsendInit", bytesOf(x), kindOf[T](), dst, tag, proto.Synchronous)
	}
	return c.sendInit("SsendInit", bytesOf(x), dst, tag, proto.Synchronous)
}

// BsendInit is SendInit for buffered sends: Start copies x. MPI-5.0 §3.9.
func BsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.sendInitChecked("BsendInit", bytesOf(x), kindOf[T](), dst, tag, proto.Buffered)
	}
	return c.sendInit("BsendInit", bytesOf(x), dst, tag, proto.Buffered)
}

// RsendInit is SendInit for receives that are known to be posted already. MPI-5.0 §3.9.
func RsendInit[T Elem](c *Comm, x []T, dst, tag int) (Request, error) {
	if c.isChecked() {
		return c.sendInitChecked("RsendInit", bytesOf(x), kindOf[T](), dst, tag, proto.Standard)
	}
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
