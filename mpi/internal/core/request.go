package core

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Request is a handle of an operation in progress, or of a persistent one. It is a small value; copies refer to the
// same operation. The zero Request refers to none: waiting for it returns immediately.
//
// A request that is not persistent ends when it is waited for; using it again fails with ErrRequest. A persistent
// request then becomes inactive, and Start starts it again. Waiting for an inactive request returns immediately.
type Request struct{ h proto.Handle }

// Wait blocks until the operation has completed.
func (r Request) Wait() (Status, error) {
	if r.h.Zero() {
		return emptyStatus, nil
	}
	st, err := r.h.Engine().Wait(r.h)
	return statusOf(st), requestError(r.h.Engine(), "Wait", err)
}

// Test is Wait without blocking: it reports false if the operation has not completed.
func (r Request) Test() (Status, bool, error) {
	if r.h.Zero() {
		return emptyStatus, true, nil
	}
	st, ok, err := r.h.Engine().Test(r.h)
	return statusOf(st), ok, requestError(r.h.Engine(), "Test", err)
}

// Start starts a persistent operation.
func (r Request) Start() error {
	if r.h.Zero() {
		return newError("Start", ErrRequest, errors.New("the zero Request"))
	}
	return requestError(r.h.Engine(), "Start", r.h.Engine().Start(r.h))
}

// Free releases a request.
func (r Request) Free() error {
	if r.h.Zero() {
		return newError("Free", ErrRequest, errors.New("the zero Request"))
	}
	return requestError(r.h.Engine(), "Free", r.h.Engine().Free(r.h))
}

// Cancel cancels a receive that has not been matched.
func (r Request) Cancel() error {
	if r.h.Zero() {
		return newError("Cancel", ErrRequest, errors.New("the zero Request"))
	}
	return requestError(r.h.Engine(), "Cancel", r.h.Engine().Cancel(r.h))
}

// requestError wraps an error of a call on requests of this engine; nil stays nil.
func requestError(e *proto.Engine, op string, err error) error {
	if err == nil {
		return nil
	}
	p := e.Owner().(*Process)
	return p.raise(&Error{Class: p.classify(err), Op: op, Rank: -1, Err: err})
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

// clearIfDone sets a completed request that is not persistent to the zero Request, as the calls for several requests
// do.
func clearIfDone(r *Request) {
	if !r.h.Persistent() {
		*r = Request{}
	}
}

// Waitall waits for all of reqs, and sets those that are not persistent to the zero Request. sts is nil or has the
// length of reqs, and receives the statuses.
func Waitall(reqs []Request, sts []Status) error {
	if sts != nil && len(sts) != len(reqs) {
		return newError("Waitall", ErrArg, fmt.Errorf("%d statuses for %d requests", len(sts), len(reqs)))
	}
	return waitAll(perf.Waitall, reqs, sts)
}

func waitAll(op perf.Op, reqs []Request, sts []Status) error {
	e := engineOf(reqs)
	var onStatus func(int, proto.Status)
	if sts != nil {
		for i := range sts {
			sts[i] = emptyStatus
		}
		onStatus = func(i int, st proto.Status) { sts[i] = statusOf(st) }
	}
	if e == nil {
		return nil
	}
	if i, err := e.WaitAll(op, handlesOf(reqs), onStatus); err != nil {
		return newError(op.String(), ErrInStatus, &RequestError{i, requestError(e, "Wait", err)})
	}
	return nil
}

// Testall is Waitall without blocking: if not all of reqs have completed, it reports false and changes nothing.
func Testall(reqs []Request, sts []Status) (bool, error) {
	if sts != nil && len(sts) != len(reqs) {
		return false, newError("Testall", ErrArg, fmt.Errorf("%d statuses for %d requests", len(sts), len(reqs)))
	}
	for _, r := range reqs {
		if r.h.Zero() {
			continue
		}
		if done, err := r.h.Engine().PollCompleted(r.h); err != nil {
			return true, requestError(r.h.Engine(), "Testall", err)
		} else if !done {
			r.h.Engine().EndOp(perf.Testall, 0, 0)
			return false, nil
		}
	}
	return true, waitAll(perf.Testall, reqs, sts)
}

// Waitany blocks until one of reqs has completed, and returns its index and status.
func Waitany(reqs []Request) (int, Status, error) {
	e := engineOf(reqs)
	if e == nil {
		return Undefined, emptyStatus, nil
	}
	i, err := e.WaitAny(perf.Waitany, handlesOf(reqs))
	return collectIndex(perf.Waitany, reqs, i, err)
}

// Testany is Waitany without blocking: it reports false if none has completed.
func Testany(reqs []Request) (int, Status, bool, error) {
	e := engineOf(reqs)
	if e == nil {
		return Undefined, emptyStatus, true, nil
	}
	i, ok, err := e.TestAny(perf.Testany, handlesOf(reqs))
	if err == nil && !ok {
		return Undefined, emptyStatus, false, nil
	}
	i, st, err := collectIndex(perf.Testany, reqs, i, err)
	return i, st, true, err
}

// Waitsome blocks until at least one of reqs has completed, and completes all that have.
func Waitsome(reqs []Request, idx []int, sts []Status) (int, error) {
	if err := checkLengths("Waitsome", reqs, idx, sts); err != nil {
		return 0, err
	}
	e := engineOf(reqs)
	if e == nil {
		return Undefined, nil
	}
	i, err := e.WaitAny(perf.Waitsome, handlesOf(reqs))
	if err != nil {
		return 0, requestError(e, "Waitsome", err)
	}
	if i < 0 {
		return Undefined, nil
	}
	return collectSome(perf.Waitsome, reqs, idx, sts)
}

// Testsome is Waitsome without blocking: it returns 0 if none has completed.
func Testsome(reqs []Request, idx []int, sts []Status) (int, error) {
	if err := checkLengths("Testsome", reqs, idx, sts); err != nil {
		return 0, err
	}
	e := engineOf(reqs)
	if e == nil {
		return Undefined, nil
	}
	i, ok, err := e.TestAny(perf.Testsome, handlesOf(reqs))
	if err != nil {
		return 0, requestError(e, "Testsome", err)
	}
	if !ok {
		return 0, nil
	}
	if i < 0 {
		return Undefined, nil
	}
	return collectSome(perf.Testsome, reqs, idx, sts)
}

func checkLengths(op string, reqs []Request, idx []int, sts []Status) error {
	if len(idx) < len(reqs) || sts != nil && len(sts) < len(reqs) {
		return newError(op, ErrArg, fmt.Errorf("%d indices and %d statuses for %d requests", len(idx), len(sts), len(reqs)))
	}
	return nil
}

// collectSome completes all requests that can complete now.
func collectSome(op perf.Op, reqs []Request, idx []int, sts []Status) (n int, first error) {
	for i := range reqs {
		r := reqs[i]
		if r.h.Zero() || !r.h.Engine().Completed(r.h) {
			continue
		}
		st, err := collectRequest(op, r)
		idx[n] = i
		if sts != nil {
			sts[n] = st
		}
		n++
		if err != nil && first == nil {
			first = newError(op.String(), ErrInStatus, &RequestError{i, err})
		}
		clearIfDone(&reqs[i])
	}
	return n, first
}

// collectIndex completes the request with index i, unless err is set or i is negative.
func collectIndex(op perf.Op, reqs []Request, i int, err error) (int, Status, error) {
	if err != nil {
		return Undefined, emptyStatus, requestError(engineOf(reqs), op.String(), err)
	}
	if i < 0 {
		return Undefined, emptyStatus, nil
	}
	st, err := collectRequest(op, reqs[i])
	clearIfDone(&reqs[i])
	return i, st, err
}

// engineOf returns the engine of the requests; nil if all are zero.
func engineOf(reqs []Request) *proto.Engine {
	for _, r := range reqs {
		if !r.h.Zero() {
			return r.h.Engine()
		}
	}
	return nil
}

// collectRequest completes a request whose operation has completed.
func collectRequest(op perf.Op, r Request) (Status, error) {
	st, err := r.h.Engine().WaitAs(op, r.h)
	return statusOf(st), requestError(r.h.Engine(), op.String(), err)
}
