package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// The calls of this file, and those of send.go and recv.go whose names end in Context, end when a
// context.Context ends. Their error then matches the error of the context, as in
// errors.Is(err, context.Canceled), and its cause. No error handler is called for it. The communicator
// stays usable. With a context that cannot end they are the calls without Context.

// ProbeContext is Probe that ends when ctx ends. It never removes a message. MPI-5.0 §3.8.1.
func (c *Comm) ProbeContext(ctx context.Context, src, tag int) (Status, error) {
	return status(core.Probe(ctx, c.core(), src, tag))
}

// MprobeContext is Mprobe that ends when ctx ends. It has taken a message if and only if err is nil. To receive that
// message with Mrecv blocks for no other message, so it has no form with a context. MPI-5.0 §3.8.2.
func (c *Comm) MprobeContext(ctx context.Context, src, tag int) (*Message, Status, error) {
	return message(core.Mprobe(ctx, c.core(), src, tag))
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
	n, st, err := core.Waitany(ctx, coreRequests(reqs))
	return n, statusOf(st), public(err)
}

// WaitsomeContext is Waitsome that ends when ctx ends. It then returns 0 and ErrPending, and has completed none of reqs.
// MPI-5.0 §3.7.5.
func WaitsomeContext(ctx context.Context, reqs []Request, idx []int, sts []Status) (int, error) {
	return public2(core.Waitsome(ctx, coreRequests(reqs), idx, coreStatuses(sts)))
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
