package core

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// stoppedError returns the error of a call that a context.Context has ended. No error handler is
// called for it: the program has asked for it.
func stoppedError(op string, rank int, class Class, err error) error {
	return &Error{Class: class, Op: op, Rank: rank, Err: err}
}

// wrapStopped is wrapError for a call that a context.Context may end.
func (c *Comm) wrapStopped(op string, err error) error {
	if stopped, ok := err.(*proto.StoppedError); ok {
		return stoppedError(op, c.Rank(), ErrOther, stopped)
	}
	return c.wrapError(op, err)
}

// SendDataContext sends the elements of d as SendData does, but ends when ctx ends.
func SendDataContext(ctx context.Context, c *Comm, op perf.Op, d *datatype.Buffer, dst, tag int, m proto.Mode) error {
	if ctx.Done() == nil {
		return c.SendData(op, d, dst, tag, m)
	}
	// A communicator that cannot be used is the error to return, whether or not ctx has ended.
	err := c.checkUsable(op.String())
	if err == nil {
		err = c.wrapStopped(op.String(), proto.Stopped(ctx))
	}
	if err != nil {
		return err
	}
	began := c.engine.Recording().BeginOp(op, int(d.Size()))
	// The send is a request, since only a request can be cancelled. It is recorded as a part of
	// this call.
	r, err := c.IsendData(op.Within(), d, dst, tag, m)
	if err == nil {
		_, err = c.engine.Requests().WaitOrCancel(ctx, op.Within(), r.h)
		err = c.wrapStopped(op.String(), err)
	}
	c.engine.Recording().EndOp(op, int(d.Size()), began)
	return err
}

// RecvContext receives into b as Recv does, but ends when ctx ends.
func RecvContext(ctx context.Context, c *Comm, b []byte, src, tag int) (Status, error) {
	if ctx.Done() == nil {
		return c.Recv(b, src, tag)
	}
	const call = perf.Recv
	from, err := c.recvRoute(call.String(), src, tag)
	if err != nil {
		return emptyStatus, err
	}
	from.Op = call
	st, err := c.engine.RecvContext(ctx, from, b)
	return statusOf(st), c.wrapStopped(call.String(), err)
}

// RecvDataContext receives into the elements of d as RecvData does, but ends when ctx ends.
func RecvDataContext(ctx context.Context, c *Comm, d *datatype.Buffer, src, tag int) (Status, error) {
	if b, ok := c.asBytes(d); ok {
		return RecvContext(ctx, c, b, src, tag)
	}
	if ctx.Done() == nil {
		return c.RecvData(d, src, tag)
	}
	const call = perf.Recv
	from, err := c.sinkRoute(call.String(), d, src, tag)
	if err != nil {
		return emptyStatus, err
	}
	if err := proto.Stopped(ctx); err != nil {
		return cancelledStatus, c.wrapStopped(call.String(), err)
	}
	from.Op = call.Within()
	began := c.engine.Recording().BeginOp(call, int(d.Size()))
	h := c.engine.IrecvData(from, d, c.note(from.Op, d))
	st, err := c.engine.Requests().WaitOrCancel(ctx, from.Op, h)
	c.engine.Recording().EndOp(call, st.Bytes, began)
	return statusOf(st), c.wrapStopped(call.String(), err)
}

// WaitContext is Wait that ends when ctx ends. The operation then continues.
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	if r.h.Zero() {
		return emptyStatus, nil
	}
	e := r.h.Engine()
	st, err := e.Requests().WaitContext(ctx, r.h)
	return statusOf(st), pendingError(e, perf.Wait, err)
}
