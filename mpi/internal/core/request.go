package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Request is a handle of an operation in progress, or of a persistent one. It is a small value;
// copies refer to the same operation. The zero Request refers to none: waiting for it returns
// immediately.
//
// A request that is not persistent ends when it is waited for; using it again fails with
// ErrRequest. A persistent request then becomes inactive, and Start starts it again. Waiting for an
// inactive request returns immediately.
type Request struct{ h proto.Handle }

// Wait blocks until the operation has completed.
func (r Request) Wait() (Status, error) {
	if r.h.Zero() {
		return emptyStatus, nil
	}
	st, err := r.h.Engine().Requests().Wait(r.h)
	return statusOf(st), requestError(r.h.Engine(), "Wait", err)
}

// Test is Wait without blocking: it reports false if the operation has not completed.
func (r Request) Test() (Status, bool, error) {
	if r.h.Zero() {
		return emptyStatus, true, nil
	}
	st, ok, err := r.h.Engine().Requests().Test(r.h)
	return statusOf(st), ok, requestError(r.h.Engine(), "Test", err)
}

// Done returns a channel that is closed when the operation has completed.
func (r Request) Done() <-chan struct{} {
	if r.h.Zero() {
		return proto.Closed()
	}
	return r.h.Engine().Requests().Done(r.h)
}

// Start starts a persistent operation.
func (r Request) Start() error {
	if r.h.Zero() {
		return newError("Start", ErrRequest, errZeroRequest)
	}
	return requestError(r.h.Engine(), "Start", r.h.Engine().Start(r.h))
}

var errZeroRequest = errors.New("the zero Request")

// do calls f for the operation of a request.
func (r Request) do(op string, f func(*proto.Requests, proto.Handle) error) error {
	if r.h.Zero() {
		return newError(op, ErrRequest, errZeroRequest)
	}
	return requestError(r.h.Engine(), op, f(r.h.Engine().Requests(), r.h))
}

// Free releases a request.
func (r Request) Free() error {
	return r.do("Free", (*proto.Requests).Free)
}

// Cancel cancels a receive that has not been matched.
func (r Request) Cancel() error {
	return r.do("Cancel", (*proto.Requests).Cancel)
}

// requestError wraps an error of a call on requests of this engine; nil stays nil. The error of an
// operation is one of its communicator, and a wrong use of a request one of the process.
func requestError(e *proto.Engine, op string, err error) error {
	if err == nil {
		return nil
	}
	p := e.Owner().(*Process)
	failed := &Error{Class: p.classify(err), Op: op, Rank: -1, Err: err}
	var operation *proto.OperationError
	// The handler to call is that of the communicator of the operation, which may be another one
	// for each request (MPI-5.0 §9.3).
	if inner := findOrigin(err); inner != nil { // of an Idup
		failed.at = inner.at
	} else if errors.As(err, &operation) {
		failed.at.comm = p.comms.of(operation.Context)
	}
	return p.raise(failed)
}

// Startall starts all of reqs. It stops at the first error.
func Startall(reqs []Request) error {
	for i, r := range reqs {
		if err := r.Start(); err != nil {
			return &RequestError{i, err}
		}
	}
	return nil
}

// Waitall waits for all of reqs, and sets those that are not persistent to the zero Request. sts is
// nil or has the length of reqs, and receives the statuses.
func Waitall(reqs []Request, sts []Status) error {
	if err := checkStatuses("Waitall", reqs, sts); err != nil {
		return err
	}
	return waitAll(perf.Waitall, reqs, sts)
}

// WaitallContext is Waitall that ends when ctx ends. It then has completed none of reqs.
func WaitallContext(ctx context.Context, reqs []Request, sts []Status) error {
	if e := engineOf(reqs); e != nil && ctx.Done() != nil && checkStatuses("Waitall", reqs, sts) == nil {
		// AwaitAll collects none of them. When it has returned, Waitall below does not block any
		// more.
		if err := e.Requests().AwaitAll(ctx, perf.Waitall, handlesOf(reqs)); err != nil {
			return stoppedError("Waitall", -1, ErrPending, err)
		}
	}
	return Waitall(reqs, sts)
}

// checkStatuses returns an error unless sts is nil or has the length of reqs.
func checkStatuses(op string, reqs []Request, sts []Status) error {
	if sts != nil && len(sts) != len(reqs) {
		return newError(op, ErrArg, fmt.Errorf("%d statuses for %d requests", len(sts), len(reqs)))
	}
	return nil
}

func waitAll(op perf.Op, reqs []Request, sts []Status) error {
	e := engineOf(reqs)
	var onStatus func(int, proto.Status)
	if sts != nil {
		// The engine reports no status for zero requests.
		for i := range sts {
			sts[i] = emptyStatus
		}
		onStatus = func(i int, st proto.Status) { sts[i] = statusOf(st) }
	}
	if e == nil {
		return nil
	}
	if i, err := e.Requests().WaitAll(op, handlesOf(reqs), onStatus); err != nil {
		return newError(op.String(), ErrInStatus, &RequestError{i, requestError(e, "Wait", err)})
	}
	return nil
}

// Testall is Waitall without blocking: if not all of reqs have completed, it reports false and
// changes nothing.
func Testall(reqs []Request, sts []Status) (bool, error) {
	if err := checkStatuses("Testall", reqs, sts); err != nil {
		return false, err
	}
	// First all are polled and none is collected: if one has not completed, the others must stay as
	// they are (MPI-5.0 §3.7.5).
	for _, r := range reqs {
		if r.h.Zero() {
			continue
		}
		if done, err := r.h.Engine().Requests().PollCompleted(r.h); err != nil {
			return true, requestError(r.h.Engine(), "Testall", err)
		} else if !done {
			r.h.Engine().Recording().EndOp(perf.Testall, 0, 0)
			return false, nil
		}
	}
	return true, waitAll(perf.Testall, reqs, sts)
}

// Waitany blocks until one of reqs has completed, and returns its index and status. It ends when
// ctx ends, and then has completed none of reqs.
func Waitany(ctx context.Context, reqs []Request) (int, Status, error) {
	e := engineOf(reqs)
	if e == nil {
		return Undefined, emptyStatus, nil
	}
	i, st, err := e.Requests().WaitAny(ctx, perf.Waitany, handlesOf(reqs))
	return indexOf(i), statusOf(st), pendingError(e, perf.Waitany, err)
}

// Testany is Waitany without blocking: it reports false if none has completed.
func Testany(reqs []Request) (int, Status, bool, error) {
	e := engineOf(reqs)
	if e == nil {
		return Undefined, emptyStatus, true, nil
	}
	i, st, ok, err := e.Requests().TestAny(perf.Testany, handlesOf(reqs))
	return indexOf(i), statusOf(st), ok || err != nil, requestError(e, perf.Testany.String(), err)
}

// indexOf returns an index of the engine as calls return it.
func indexOf(i int) int {
	if i < 0 {
		return Undefined
	}
	return i
}

// Waitsome blocks until at least one of reqs has completed, and completes all that are known to
// have. It ends when ctx ends, and then has completed none of reqs.
func Waitsome(ctx context.Context, reqs []Request, idx []int, sts []Status) (int, error) {
	return collectSome(ctx, perf.Waitsome, true, reqs, idx, sts)
}

// Testsome is Waitsome without blocking: it returns 0 if none has completed.
func Testsome(reqs []Request, idx []int, sts []Status) (int, error) {
	return collectSome(context.Background(), perf.Testsome, false, reqs, idx, sts)
}

// collectSome is Waitsome, or Testsome if block is false.
func collectSome(ctx context.Context, op perf.Op, block bool, reqs []Request, idx []int, sts []Status) (n int, err error) {
	if err := checkLengths(op.String(), reqs, idx, sts); err != nil {
		return 0, err
	}
	e := engineOf(reqs)
	if e == nil {
		return Undefined, nil
	}
	x := someResults{e: e, op: op, idx: idx, sts: sts}
	// Direct calls of both: through a variable the results would be allocated.
	if block {
		n, err = e.Requests().WaitSome(ctx, op, handlesOf(reqs), x.add)
	} else {
		n, err = e.Requests().TestSome(op, handlesOf(reqs), x.add)
	}
	if err != nil {
		return 0, pendingError(e, op, err)
	}
	return indexOf(n), x.first
}

// someResults are the results of a Waitsome or Testsome.
type someResults struct {
	e     *proto.Engine
	op    perf.Op
	idx   []int
	sts   []Status
	n     int
	first error
}

func (x *someResults) add(i int, st proto.Status, err error) {
	// All that have completed are collected, also those behind one that has failed: otherwise their
	// statuses would be lost.
	x.idx[x.n] = i
	if x.sts != nil {
		x.sts[x.n] = statusOf(st)
	}
	x.n++
	if err != nil && x.first == nil {
		x.first = newError(x.op.String(), ErrInStatus, &RequestError{i, requestError(x.e, x.op.String(), err)})
	}
}

// pendingError is requestError for a wait that a context.Context may end.
func pendingError(e *proto.Engine, op perf.Op, err error) error {
	if stopped, ok := err.(*proto.StoppedError); ok {
		return stoppedError(op.String(), -1, ErrPending, stopped)
	}
	return requestError(e, op.String(), err)
}

func checkLengths(op string, reqs []Request, idx []int, sts []Status) error {
	if len(idx) < len(reqs) || sts != nil && len(sts) < len(reqs) {
		return newError(op, ErrArg, fmt.Errorf("%d indices and %d statuses for %d requests", len(idx), len(sts), len(reqs)))
	}
	return nil
}

// engineOf returns the engine of the requests; nil if all are zero.
func engineOf(reqs []Request) *proto.Engine {
	if n := len(reqs); n != 0 && !reqs[n-1].h.Zero() { // often after those before have been collected
		return reqs[n-1].h.Engine()
	}
	for _, r := range reqs {
		if !r.h.Zero() {
			return r.h.Engine()
		}
	}
	return nil
}
