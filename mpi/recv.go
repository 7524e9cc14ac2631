package mpi

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Recv receives a message from rank src, or AnySource, with a tag, or AnyTag, into x. A message longer than x is
// ErrTruncate: x holds its first part, the rest is gone, and the next messages are untouched. MPI-5.0 §3.2.4.
func Recv[T Elem](c *Comm, x []T, src int, tag int) (Status, error) {
	return c.recv(bytesOf(x), src, tag)
}

// Irecv begins a receive. x must not be touched until the request has completed. MPI-5.0 §3.7.2.
func Irecv[T Elem](c *Comm, x []T, src int, tag int) (Request, error) {
	from, err := c.recvRoute("Irecv", src, tag)
	if err != nil {
		return Request{}, err
	}
	from.Op = perf.Irecv
	return Request{c.engine.Irecv(from, bytesOf(x))}, nil
}

// RecvInit makes a persistent receive into x, which [Request.Start] begins, any number of times. MPI-5.0 §3.9.
func RecvInit[T Elem](c *Comm, x []T, src int, tag int) (Request, error) {
	from, err := c.recvRoute("RecvInit", src, tag)
	if err != nil {
		return Request{}, err
	}
	return Request{c.engine.RecvInit(from, bytesOf(x))}, nil
}

// Sendrecv sends sx and receives into rx at the same time. The two must not overlap. MPI-5.0 §3.11.
func Sendrecv[S, R Elem](c *Comm, sx []S, dst int, stag int, rx []R, src int, rtag int) (Status, error) {
	return c.sendrecv(bytesOf(sx), dst, stag, bytesOf(rx), src, rtag)
}

// recvRoute checks the arguments of a receive and returns its route.
func (c *Comm) recvRoute(op string, src int, tag int) (proto.Route, error) {
	from, ok := c.fastRecvRoute(src, tag)
	if !ok {
		return c.slowRecvRoute(op, src, tag)
	}
	return from, nil
}

func (c *Comm) recv(b []byte, src int, tag int) (Status, error) {
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

func (c *Comm) sendrecv(s []byte, dst int, stag int, r []byte, src int, rtag int) (Status, error) {
	const op = "Sendrecv"
	if overlap(s, r) {
		return emptyStatus, c.newError(op, ErrBuffer, errors.New("what is sent and what is received overlap"))
	}
	to, ok := c.fastSendRoute(dst, stag)
	if !ok {
		var err error
		if to, err = c.slowSendRoute(op, dst, stag); err != nil {
			return emptyStatus, err
		}
	}
	from, err := c.recvRoute(op, src, rtag)
	if err != nil {
		return emptyStatus, err
	}
	to.Op, from.Op = perf.Sendrecv.Within(), perf.Sendrecv.Within()
	began := c.engine.BeginOp(perf.Sendrecv, len(s)+len(r))
	h := c.engine.Irecv(from, r)
	if err := c.engine.Send(to, s, proto.Standard); err != nil {
		c.cancelRecv(h)
		return emptyStatus, c.wrapError(op, err)
	}
	st, err := c.engine.Wait(h)
	c.engine.EndOp(perf.Sendrecv, len(s)+st.Bytes, began)
	if err != nil {
		return statusOf(st), c.wrapError(op, err)
	}
	return statusOf(st), nil
}

// cancelRecv ends a receive, so that nothing writes to its buffer any more.
func (c *Comm) cancelRecv(h proto.Handle) {
	_ = c.engine.Cancel(h) // it may have completed; the caller returns the earlier error
	_, _ = c.engine.Wait(h)
}
