package core

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// stoppedError returns the error of a call that a context.Context has ended. No error handler is called for it: the program has
// asked for it.
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

// SendContext is Send that ends when ctx ends.
func (c *Comm) SendContext(ctx context.Context, op perf.Op, b []byte, k datatype.Kind, dst, tag int, m proto.Mode) error {
	if ctx.Done() == nil {
		if c.IsChecked() {
			return c.SendChecked(op, b, k, dst, tag, m)
		}
		return c.Send(op, b, dst, tag, m)
	}
	if err := c.startStoppable(ctx, op); err != nil {
		return err
	}
	began := c.engine.Recording().BeginOp(op, len(b))
	var r Request
	var err error
	if c.checks {
		r, err = c.IsendChecked(op.Within(), b, k, dst, tag, m)
	} else {
		r, err = c.Isend(op.Within(), b, dst, tag, m)
	}
	return c.finishSend(ctx, op, len(b), began, r, err)
}

// SendContextData is SendContext of the elements of d.
func (c *Comm) SendContextData(ctx context.Context, op perf.Op, d *datatype.Buffer, dst, tag int, m proto.Mode) error {
	if ctx.Done() == nil {
		return c.SendData(op, d, dst, tag, m)
	}
	if err := c.startStoppable(ctx, op); err != nil {
		return err
	}
	began := c.engine.Recording().BeginOp(op, int(d.Size()))
	r, err := c.IsendData(op.Within(), d, dst, tag, m)
	return c.finishSend(ctx, op, int(d.Size()), began, r, err)
}

// startStoppable returns an error if c cannot be used or ctx has ended.
func (c *Comm) startStoppable(ctx context.Context, op perf.Op) error {
	if err := c.checkUsable(op.String()); err != nil {
		return err
	}
	return c.wrapStopped(op.String(), proto.Stopped(ctx))
}

// finishSend waits for a send r of n bytes that has been started, without an error, by the call op.
func (c *Comm) finishSend(ctx context.Context, op perf.Op, n int, began uint64, r Request, err error) error {
	if err == nil {
		_, err = c.engine.WaitOrCancel(ctx, op.Within(), r.h)
		err = c.wrapStopped(op.String(), err)
	}
	c.engine.Recording().EndOp(op, n, began)
	return err
}

// RecvContext is Recv that ends when ctx ends.
func (c *Comm) RecvContext(ctx context.Context, b []byte, k datatype.Kind, src, tag int) (Status, error) {
	if ctx.Done() == nil {
		if c.IsChecked() {
			return c.RecvChecked(b, k, src, tag)
		}
		return c.Recv(b, src, tag)
	}
	const call = perf.Recv
	from, err := c.recvRoute(call.String(), src, tag)
	if err != nil {
		return emptyStatus, err
	}
	if c.checks {
		return c.recvContextChecked(ctx, b, k, src, tag)
	}
	from.Op = call
	st, err := c.engine.RecvContext(ctx, from, b)
	if err != nil {
		return statusOf(st), c.wrapStopped(call.String(), err)
	}
	return statusOf(st), nil
}

// recvContextChecked is RecvContext with a note.
func (c *Comm) recvContextChecked(ctx context.Context, b []byte, k datatype.Kind, src, tag int) (Status, error) {
	const call = perf.Recv
	if err := proto.Stopped(ctx); err != nil {
		return cancelledStatus, c.wrapStopped(call.String(), err)
	}
	began := c.engine.Recording().BeginOp(call, len(b))
	r, err := c.IrecvChecked(call.Within(), b, k, src, tag)
	if err != nil {
		return emptyStatus, err
	}
	st, err := c.engine.WaitOrCancel(ctx, call.Within(), r.h)
	c.engine.Recording().EndOp(call, st.Bytes, began)
	return statusOf(st), c.wrapStopped(call.String(), err)
}

// RecvContextData is RecvContext into the elements of d.
func (c *Comm) RecvContextData(ctx context.Context, d *datatype.Buffer, src, tag int) (Status, error) {
	if b, ok := c.asBytes(d); ok {
		return c.RecvContext(ctx, b, d.Kind(), src, tag)
	}
	if ctx.Done() == nil {
		return c.RecvData(d, src, tag)
	}
	const call = perf.Recv
	if err := c.checkUsable(call.String()); err != nil {
		return emptyStatus, err
	}
	if err := proto.Stopped(ctx); err != nil {
		return cancelledStatus, c.wrapStopped(call.String(), err)
	}
	began := c.engine.Recording().BeginOp(call, int(d.Size()))
	h, err := c.irecvData(call.Within(), d, src, tag)
	if err != nil {
		c.engine.Recording().EndOp(call, 0, began)
		return emptyStatus, err
	}
	st, err := c.engine.WaitOrCancel(ctx, call.Within(), h)
	c.engine.Recording().EndOp(call, st.Bytes, began)
	return statusOf(st), c.wrapStopped(call.String(), err)
}

// ProbeContext is Probe that ends when ctx ends.
func (c *Comm) ProbeContext(ctx context.Context, src, tag int) (Status, error) {
	const call = perf.Probe
	from, err := c.recvRoute(call.String(), src, tag)
	if err == nil {
		err = c.wrapStopped(call.String(), proto.Stopped(ctx))
	}
	if err != nil {
		return emptyStatus, err
	}
	if src == ProcNull {
		return procNullStatus, nil
	}
	from.Op = call
	st, err := c.engine.ProbeContext(ctx, from)
	if err != nil {
		return emptyStatus, c.wrapStopped(call.String(), err)
	}
	return statusOf(st), nil
}

// MprobeContext is Mprobe that ends when ctx ends.
func (c *Comm) MprobeContext(ctx context.Context, src, tag int) (*Message, Status, error) {
	const call = perf.Mprobe
	from, err := c.recvRoute(call.String(), src, tag)
	if err == nil {
		err = c.wrapStopped(call.String(), proto.Stopped(ctx))
	}
	if err != nil {
		return nil, emptyStatus, err
	}
	if src == ProcNull {
		return &Message{comm: c, status: procNullStatus, fromProcNull: true}, procNullStatus, nil
	}
	from.Op = call
	f, st, err := c.engine.MatchedProbeContext(ctx, from)
	if err != nil {
		return nil, emptyStatus, c.wrapStopped(call.String(), err)
	}
	return &Message{comm: c, msg: f, status: statusOf(st)}, statusOf(st), nil
}

// WaitContext is Wait that ends when ctx ends. The operation then continues.
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	if r.h.Zero() {
		return emptyStatus, nil
	}
	e := r.h.Engine()
	st, err := e.WaitContext(ctx, r.h)
	return statusOf(st), pendingError(e, perf.Wait, err)
}

// WaitallContext is Waitall that ends when ctx ends. It then has completed none of reqs.
func WaitallContext(ctx context.Context, reqs []Request, sts []Status) error {
	if err := checkStatuses("Waitall", reqs, sts); err != nil {
		return err
	}
	if e := engineOf(reqs); e != nil && ctx.Done() != nil {
		if err := e.AwaitAll(ctx, perf.Waitall, handlesOf(reqs)); err != nil {
			return stoppedError("Waitall", -1, ErrPending, err)
		}
	}
	return waitAll(perf.Waitall, reqs, sts)
}
