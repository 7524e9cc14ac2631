package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// The calls of this file end when a context.Context ends. Their error then matches the error of the context, as in
// errors.Is(err, context.Canceled), and its cause. No error handler is called for it. The communicator stays usable. With a
// context that cannot end they are the calls without Context.

// SendContext is Send that ends when ctx ends. If err is nil, the message was sent as Send does, even if ctx has ended
// meanwhile. If err matches the error of ctx, no receive gets the message, and x may be used again. If ctx has ended before
// the call, it sends nothing.
//
// A short message is sent without waiting for the receiver. A long one that no receive has matched is withdrawn when ctx
// ends. The call returns when the receiver's process has confirmed that, so it may return later than ctx ends if that
// process computes. To stop at once use Isend and [Request.WaitContext]: the send then continues. MPI-5.0 §3.2.1, §3.8.4.
func SendContext[T any](ctx context.Context, c *Comm, x []T, dst, tag int) error {
	if !core.IsNumber[T]() {
		return c.SendContext(ctx, elements("Send", x), dst, tag)
	}
	return public(c.core().SendContext(ctx, perf.Send, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Standard))
}

// SendContext is the function [SendContext] of a view. MPI-5.0 §3.2.1, §3.8.4.
func (c *Comm) SendContext(ctx context.Context, v View, dst, tag int) error {
	return c.sendViewContext(ctx, perf.Send, &v, dst, tag, proto.Standard)
}

// SsendContext is Ssend that ends when ctx ends, as [SendContext] does. If err is nil, a receive has matched the message.
// MPI-5.0 §3.4, §3.8.4.
func SsendContext[T any](ctx context.Context, c *Comm, x []T, dst, tag int) error {
	if !core.IsNumber[T]() {
		return c.SsendContext(ctx, elements("Ssend", x), dst, tag)
	}
	return public(c.core().SendContext(ctx, perf.Ssend, core.Bytes(x), core.KindOf[T](), dst, tag, proto.Synchronous))
}

// SsendContext is the function [SsendContext] of a view. MPI-5.0 §3.4, §3.8.4.
func (c *Comm) SsendContext(ctx context.Context, v View, dst, tag int) error {
	return c.sendViewContext(ctx, perf.Ssend, &v, dst, tag, proto.Synchronous)
}

func (c *Comm) sendViewContext(ctx context.Context, op perf.Op, v *View, dst, tag int, m proto.Mode) error {
	if v.err != nil {
		return c.callError(op.String(), v.err)
	}
	return public(c.core().SendContextData(ctx, op, &v.data, dst, tag, m))
}

// RecvContext is Recv that ends when ctx ends. If err is nil the message was received, even if ctx has ended
// meanwhile. If err matches the error of ctx, no message was received: x is unchanged, [Status.Cancelled] reports true,
// and the message goes to the next receive that matches it. If ctx has ended before the call, it receives nothing.
//
// A message that has been matched is received to its end. So the call may return later than ctx ends if a long message
// is on its way and its sender is slow. MPI-5.0 §3.2.4, §3.8.4.
func RecvContext[T any](ctx context.Context, c *Comm, x []T, src, tag int) (Status, error) {
	if !core.IsNumber[T]() {
		return c.RecvContext(ctx, elements("Recv", x), src, tag)
	}
	return status(c.core().RecvContext(ctx, core.Bytes(x), core.KindOf[T](), src, tag))
}

// RecvContext is [RecvContext] into a view. MPI-5.0 §3.2.4, §3.8.4.
func (c *Comm) RecvContext(ctx context.Context, v View, src, tag int) (Status, error) {
	if v.err != nil {
		return statusOf(core.EmptyStatus()), c.callError("RecvContext", v.err)
	}
	return status(c.core().RecvContextData(ctx, &v.data, src, tag))
}

// ProbeContext is Probe that ends when ctx ends. It never removes a message. MPI-5.0 §3.8.1.
func (c *Comm) ProbeContext(ctx context.Context, src, tag int) (Status, error) {
	return status(c.core().ProbeContext(ctx, src, tag))
}

// MprobeContext is Mprobe that ends when ctx ends. It has taken a message if and only if err is nil. To receive that
// message with Mrecv blocks for no other message, so it has no form with a context. MPI-5.0 §3.8.2.
func (c *Comm) MprobeContext(ctx context.Context, src, tag int) (*Message, Status, error) {
	m, st, err := c.core().MprobeContext(ctx, src, tag)
	return (*Message)(m), statusOf(st), public(err)
}

// WaitContext is Wait that ends when ctx ends. It then returns ErrPending: the operation continues, its buffer is still in use,
// and r must still be waited for, perhaps after [Request.Cancel]. If the operation has completed, its result is returned even if
// ctx has ended. MPI-5.0 §3.7.3.
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	return status(r.core().WaitContext(ctx))
}

// WaitallContext is Waitall that ends when ctx ends. It then returns ErrPending, and has changed neither reqs nor sts:
// all of reqs must still be waited for. MPI-5.0 §3.7.5.
func WaitallContext(ctx context.Context, reqs []Request, sts []Status) error {
	return public(core.WaitallContext(ctx, coreRequests(reqs), coreStatuses(sts)))
}

// WaitanyContext is Waitany that ends when ctx ends. It then returns Undefined and ErrPending, and has completed none of
// reqs. MPI-5.0 §3.7.5.
func WaitanyContext(ctx context.Context, reqs []Request) (int, Status, error) {
	i, st, err := core.WaitanyContext(ctx, coreRequests(reqs))
	return i, statusOf(st), public(err)
}

// WaitsomeContext is Waitsome that ends when ctx ends. It then returns 0 and ErrPending, and has completed none of reqs.
// MPI-5.0 §3.7.5.
func WaitsomeContext(ctx context.Context, reqs []Request, idx []int, sts []Status) (int, error) {
	n, err := core.WaitsomeContext(ctx, coreRequests(reqs), idx, coreStatuses(sts))
	return n, public(err)
}

// BarrierContext is Barrier that ends when ctx ends, until all ranks have called it. All ranks must call it, and not
// Barrier. If it returns nil, all ranks are in the call, and at all of them it returns nil. If err matches the error of ctx,
// this rank has left: the call counts as not made, the others wait until this rank calls BarrierContext again or leave
// as well, and the communicator stays usable.
//
// A collective cannot be left once its messages are on their way. Call BarrierContext before it: all ranks then begin
// the collective, and none has to wait for a late one. It costs five messages for each rank. MPI-5.0 §6.3.
func (c *Comm) BarrierContext(ctx context.Context) error {
	return public(c.core().Collectives().BarrierContext(ctx))
}
