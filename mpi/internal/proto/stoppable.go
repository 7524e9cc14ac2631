package proto

import (
	"context"

	"github.com/ibrun/ibrun/perf"
)

// The calls that end when a context.Context ends; stop.go has how they are woken then.

// awaitRequest blocks until a request has completed or ctx has ended. Only in the second case it
// returns an error. If the engine has failed it returns as well; waitRequest then returns the
// failure.
func (q *Requests) awaitRequest(ctx context.Context, r *Request, op perf.Op) error {
	gen := r.gen
	for i := 0; i < q.waiters.spin && r.state == active && r.gen == gen && q.waiters.failure.err == nil &&
		q.waiters.transfers.head == nil && !q.waiters.busy() && !q.mu.Contended(); i++ {
		q.poller.progress()
	}
	if r.state != active || r.gen != gen {
		return nil
	}
	lane := q.rec.Enter(op, r.route.Context, r.route.Peer, r.route.Tag, len(r.buf))
	g := goal{watch: watch{what: requestCompleted}, req: r, gen: gen}
	err := q.waiters.awaitContext(ctx, &g)
	q.rec.Configured.Leave(lane)
	return err
}

// RecvContext is Recv that ends when ctx ends. If the receive has no message then, it is cancelled:
// it returns a StoppedError and a status that says so. Otherwise it returns when the message is
// complete, without an error. If ctx has ended before the call, it takes no message.
func (e *Engine) RecvContext(ctx context.Context, from Route, buf []byte) (Status, error) {
	if err := Stopped(ctx); err != nil {
		return cancelledStatus, err
	}
	e.lock()
	defer e.unlock()
	began := e.rec.Active.Begin(from.Op, len(buf))
	var st Status
	var err error
	if e.tryDirect(from, buf) {
		st = Status{Source: from.Rank, Tag: from.Tag, Bytes: e.poller.in.direct.length}
	} else {
		r := e.poller.in.direct.req
		if r == nil {
			r = e.requests.take()
			r.send, r.route, r.buf = false, from, buf
			e.receives.start(r)
		}
		st, err = e.requests.waitOrCancel(ctx, r, from.Op)
	}
	if began != 0 {
		e.rec.SetPeer(from.Context, from.Peer, st.Tag)
	}
	e.rec.Active.End(from.Op, st.Bytes, began)
	return st, err
}

// WaitOrCancel waits for a receive or a send as RecvContext does, as a part of the operation op. If
// ctx ends it cancels the operation; see Cancel.
func (q *Requests) WaitOrCancel(ctx context.Context, op perf.Op, h Handle) (Status, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !h.valid() {
		return Status{}, ErrStale
	}
	return q.waitOrCancel(ctx, h.r, op)
}

func (q *Requests) waitOrCancel(ctx context.Context, r *Request, op perf.Op) (Status, error) {
	stopped := q.awaitRequest(ctx, r, op)
	if stopped != nil {
		q.cancel(r)
	}
	// The request completes with the message, or when the sender has acknowledged that none comes.
	err := q.waitRequest(r, op)
	if err == nil && r.status.Cancelled {
		err = stopped
	}
	return r.status, err
}

// WaitContext is Wait that ends when ctx ends. It then returns a StoppedError, and the operation
// continues: h is still valid. A request that has completed is collected, even if ctx has ended.
func (q *Requests) WaitContext(ctx context.Context, h Handle) (Status, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	op := perf.Wait
	if h.r.route.Op.IsWithin() {
		op = h.r.route.Op
	}
	began := q.rec.Active.Begin(op, 0)
	defer func() { q.rec.Active.End(op, 0, began) }()
	if !h.finished() {
		if err := q.awaitRequest(ctx, h.r, op); err != nil {
			return Status{}, err
		}
	}
	return q.waitHandle(h, op)
}

// AwaitAll blocks until all of hs except the zero handles have completed, or ctx has ended. It
// collects none of them. Only if ctx has ended it returns an error. The call is shown as op.
func (q *Requests) AwaitAll(ctx context.Context, op perf.Op, hs []Handle) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range hs {
		if h.r == nil || h.finished() {
			continue
		}
		if err := q.awaitRequest(ctx, h.r, op); err != nil || q.waiters.failure.err != nil {
			return err
		}
	}
	return nil
}
