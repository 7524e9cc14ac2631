package proto

import "github.com/ibrun/ibrun/perf"

// Wait blocks until the operation that h names has completed, and ends this use of its request. For
// a persistent request that is not active it returns immediately. The call is recorded as
// perf.Wait, unless the request is part of another operation.
func (q *Requests) Wait(h Handle) (Status, error) {
	q.mu.Lock()
	op := perf.Wait
	if h.r.route.Op.IsWithin() {
		op = h.r.route.Op
	}
	began := q.rec.Active.Begin(op, 0)
	st, err := q.waitHandle(h, op)
	q.rec.Active.End(op, 0, began)
	q.mu.Unlock()
	return st, err
}

// WaitAs is Wait as a part of the operation op, which is recorded elsewhere.
func (q *Requests) WaitAs(op perf.Op, h Handle) (Status, error) {
	q.mu.Lock()
	st, err := q.waitHandle(h, op)
	q.mu.Unlock()
	return st, err
}

func (q *Requests) waitHandle(h Handle, op perf.Op) (Status, error) {
	r := h.r
	switch {
	case r.state == done && r.gen == h.gen && r.flags == 0:
		err := r.err
		q.release(r)
		return r.status, err
	case !h.valid():
		return Status{}, ErrStale
	case r.state == inactive:
		return emptyStatus, nil
	}
	err := q.waitRequest(r, op)
	return r.status, err
}

// waitRequest blocks until a request has completed, and collects its error. The request may be
// reused afterwards; its status remains until then. If several goroutines wait for the same
// request, one of them gets it.
func (q *Requests) waitRequest(r *Request, op perf.Op) error {
	gen := r.gen
	if q.waiters.yieldTimer.Due() && !q.waiters.busy() {
		q.waiters.yield()
	}
	for i := 0; r.state == active && r.gen == gen; i++ {
		if q.waiters.failure.err != nil {
			return r.operationError(q.waiters.failure.err)
		}
		if !q.waiters.busy() && !q.poller.progress() && q.waiters.transfers.head == nil && i < q.waiters.spin && !q.mu.Contended() &&
			(i != pollsBeforeCount || !q.waiters.hasNewcomers()) {
			continue
		}
		if r.state == active {
			// An operation that has completed by now need not be shown as the current one.
			shown, peer, tag := r.shownAs(op)
			lane := q.rec.Enter(shown, r.route.Context, peer, tag, r.size())
			g := goal{watch: watch{what: requestCompleted}, req: r, gen: gen}
			q.waiters.await(&g)
			q.rec.Configured.Leave(lane)
		}
		i = 0
	}
	if r.state != done || r.gen != gen {
		return ErrStale
	}
	_, err := q.collect(r)
	return err
}

// WaitAll is Wait for all of hs except the zero handles. It sets handles to zero, except those of
// persistent requests. It calls report with each result, unless report is nil. It returns the first
// error and its index. The call is recorded as op.
func (q *Requests) WaitAll(op perf.Op, hs []Handle, report func(i int, st Status)) (failed int, first error) {
	q.mu.Lock()
	began := q.rec.Active.Begin(op, 0)
	for i := 0; i < len(hs); i++ {
		if report == nil {
			i += q.collectCompleted(hs[i:])
		}
		if i == len(hs) {
			break
		}
		h := hs[i]
		if h.r == nil {
			continue
		}
		keep := h.r.flags&persistent != 0
		st, err := q.waitHandle(h, op)
		if report != nil {
			report(i, st)
		}
		if err != nil && first == nil {
			failed, first = i, err
		}
		if !keep {
			hs[i] = Handle{}
		}
	}
	q.rec.Active.End(op, 0, began)
	q.mu.Unlock()
	return failed, first
}

// collectCompleted does the work of WaitAll for the first handles that have completed without flags
// and errors, and returns how many these are. Most have, so it calls nothing.
func (q *Requests) collectCompleted(hs []Handle) int {
	for i := range hs {
		r := hs[i].r
		if r == nil {
			continue
		}
		if r.state != done || r.gen != hs[i].gen || r.flags != 0 || r.err != nil || r.buf != nil {
			return i
		}
		r.endUse()
		q.put(r)
		hs[i] = Handle{}
	}
	return len(hs)
}

// Test is Wait if the operation has completed; otherwise it makes progress once and returns false.
func (q *Requests) Test(h Handle) (Status, bool, error) {
	q.mu.Lock()
	began := q.rec.Active.Begin(perf.Test, 0)
	st, ok, err := q.test(h)
	q.rec.Active.End(perf.Test, 0, began)
	q.mu.Unlock()
	return st, ok, err
}

func (q *Requests) test(h Handle) (Status, bool, error) {
	r := h.r
	var failure error
	if !h.finished() {
		// Another goroutine may collect the request meanwhile.
		failure = q.poller.pollInTest()
	}
	switch {
	case !h.valid():
		return Status{}, true, ErrStale
	case r.state == inactive:
		return emptyStatus, true, nil
	case r.state == active:
		return Status{}, failure != nil, r.operationError(failure)
	}
	_, err := q.collect(r)
	return r.status, true, err
}

// PollCompleted reports whether Wait would return immediately. If not, it makes progress once and
// checks again. A stale handle counts as completed: Wait returns its error.
func (q *Requests) PollCompleted(h Handle) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !h.finished() {
		if failure := q.poller.pollInTest(); !h.finished() {
			return false, failure
		}
	}
	return true, nil
}

func (h Handle) finished() bool { return !h.valid() || h.r.state != active }
