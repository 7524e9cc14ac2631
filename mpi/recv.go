package mpi

import "github.com/ibrun/ibrun/perf"

// Recv receives a message from rank src, or AnySource, with a tag, or AnyTag, into x. If the message is longer than
// x, it fails with ErrTruncate: x contains the beginning of the message, the rest is discarded, and later messages
// are not affected. MPI-5.0 §3.2.4.
func Recv[T Elem](c *Comm, x []T, src, tag int) (Status, error) {
	if c.isChecked() {
		return c.recvChecked(bytesOf(x), kindOf[T](), src, tag)
	}
	return c.recv(bytesOf(x), src, tag)
}

// Irecv starts a receive. x must not be accessed until the request has completed. MPI-5.0 §3.7.2.
func Irecv[T Elem](c *Comm, x []T, src, tag int) (Request, error) {
	if c.isChecked() {
		return c.irecvChecked(perf.Irecv, bytesOf(x), kindOf[T](), src, tag)
	}
	from, err := c.recvRoute("Irecv", src, tag)
	if err != nil {
		return Request{}, err
	}
	from.Op = perf.Irecv
	return Request{c.engine.Irecv(from, bytesOf(x))}, nil
}

// RecvInit creates a persistent receive into x. Each [Request.Start] starts it again. MPI-5.0 §3.9.
func RecvInit[T Elem](c *Comm, x []T, src, tag int) (Request, error) {
	if c.isChecked() {
		return c.recvInitChecked(bytesOf(x), kindOf[T](), src, tag)
	}
	return c.recvInit(bytesOf(x), src, tag)
}

func (c *Comm) recvInit(b []byte, src, tag int) (Request, error) {
	from, err := c.recvRoute("RecvInit", src, tag)
	if err != nil {
		return Request{}, err
	}
	return Request{c.engine.RecvInit(from, b)}, nil
}

func (c *Comm) recv(b []byte, src, tag int) (Status, error) {
	const op = "Recv"
	from, ok := c.fastRecvRoute(src, tag)
	if !ok {
		var err error
		if from, err = c.slowRecvRoute(op, src, tag); err != nil {
			return emptyStatus, err
		}
	}
	from.Op = perf.Recv
	st, err := c.engine.Recv(from, b)
	if err != nil {
		return statusOf(st), c.wrapError(op, err)
	}
	return statusOf(st), nil
}
