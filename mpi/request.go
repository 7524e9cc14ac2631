package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Request is a handle of an operation in progress, or of a persistent one. It is a small value; copies refer to the
// same operation. The zero Request refers to none: waiting for it returns immediately. MPI-5.0 §3.7.
//
// A request that is not persistent ends when it is waited for; using it again fails with ErrRequest. A persistent
// request then becomes inactive, and Start starts it again. Waiting for an inactive request returns immediately.
type Request core.Request

func (r Request) core() core.Request { return core.Request(r) }

// request returns the results of a call of core.
func request(r core.Request, err error) (Request, error) { return Request(r), public(err) }

// Wait blocks until the operation has completed. MPI-5.0 §3.7.3.
func (r Request) Wait() (Status, error) { return status(r.core().Wait()) }

// Test is Wait without blocking: it reports false if the operation has not completed. MPI-5.0 §3.7.3.
func (r Request) Test() (Status, bool, error) {
	st, ok, err := r.core().Test()
	return statusOf(st), ok, public(err)
}

// Done returns a channel that is closed when the operation has completed: Wait then returns immediately, with the status and the
// error. It is for select statements:
//
//	select {
//	case <-r.Done():
//		st, err := r.Wait()
//	case <-ctx.Done():
//
// The channel of a request that has no operation in progress, such as the zero Request, is closed. A persistent request has a
// new channel after each Start. While an operation is in progress all calls return the same channel. The program need not receive
// from it, and any number of goroutines may. It is closed also when a process was lost, so that Wait fails, and when this process
// leaves the job.
//
// While any channel is open, one goroutine of the library makes progress for all of them, so the program need not call anything
// meanwhile. It polls for a moment and then sleeps. A program that only waits is faster with Wait. MPI-5.0 §3.7.3.
func (r Request) Done() <-chan struct{} { return r.core().Done() }

// Start starts a persistent operation. MPI-5.0 §3.9.
func (r Request) Start() error { return public(r.core().Start()) }

// Free releases a request. An operation in progress still completes, but its completion cannot be observed.
// MPI-5.0 §3.7.3.
func (r Request) Free() error { return public(r.core().Free()) }

// Cancel cancels a receive or a send that has not been matched. The request must still be waited for, and its status
// reports whether it was cancelled. An operation that has been matched completes as usual, and so does the send of a short
// message, unless it is synchronous: it does not wait for the receiver. MPI-5.0 §3.8.4.
func (r Request) Cancel() error { return public(r.core().Cancel()) }

// Startall starts all of reqs. It stops at the first error. MPI-5.0 §3.9.
func Startall(reqs []Request) error { return public(core.Startall(coreRequests(reqs))) }

// Waitall waits for all of reqs, and sets those that are not persistent to the zero Request. sts is nil or has the
// length of reqs, and receives the statuses. If requests fail, the error is ErrInStatus and wraps the first failure;
// the other requests have completed. MPI-5.0 §3.7.5.
func Waitall(reqs []Request, sts []Status) error {
	return public(core.Waitall(coreRequests(reqs), coreStatuses(sts)))
}

// Testall is Waitall without blocking: if not all of reqs have completed, it reports false and changes nothing.
// MPI-5.0 §3.7.5.
func Testall(reqs []Request, sts []Status) (bool, error) {
	return public2(core.Testall(coreRequests(reqs), coreStatuses(sts)))
}

// Waitany blocks until one of reqs has completed, and returns its index and status. The index is Undefined if no
// request is active. MPI-5.0 §3.7.5.
func Waitany(reqs []Request) (int, Status, error) {
	return WaitanyContext(context.Background(), reqs)
}

// Testany is Waitany without blocking: it reports false if none has completed. MPI-5.0 §3.7.5.
func Testany(reqs []Request) (int, Status, bool, error) {
	n, st, ok, err := core.Testany(coreRequests(reqs))
	return n, statusOf(st), ok, public(err)
}

// Waitsome blocks until at least one of reqs has completed, and completes all that are known to have. It stores their indices in
// idx and their statuses in sts, which may be nil. Both must have the length of reqs. It returns their number;
// Undefined if no request is active. MPI-5.0 §3.7.5.
func Waitsome(reqs []Request, idx []int, sts []Status) (int, error) {
	return WaitsomeContext(context.Background(), reqs, idx, sts)
}

// Testsome is Waitsome without blocking: it returns 0 if none has completed. MPI-5.0 §3.7.5.
func Testsome(reqs []Request, idx []int, sts []Status) (int, error) {
	return public2(core.Testsome(coreRequests(reqs), idx, coreStatuses(sts)))
}
