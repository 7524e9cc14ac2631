package proto

import "github.com/ibrun/ibrun/perf"

// Wait waits for the operation that h names and ends this use of its request. For a persistent request that is not
// active it returns at once. It is recorded as perf.Wait, unless the request is part of another operation.
func (e *Engine) Wait(h Handle) (Status, error) {
	e.lock()
	op := perf.Wait
	if h.r.route.Op.IsWithin() {
		op = h.r.route.Op
	}
	began := e.rec.Begin(op, 0)
	st, err := e.waitFor(h, op)
	e.rec.End(op, 0, began)
	e.unlock()
	return st, err
}

// WaitAs is Wait as part of an operation that is recorded elsewhere.
func (e *Engine) WaitAs(op perf.Op, h Handle) (Status, error) {
	e.lock()
	st, err := e.waitFor(h, op)
	e.unlock()
	return st, err
}

func (e *Engine) waitFor(h Handle, op perf.Op) (Status, error) {
	r := h.r
	switch {
	case r.state == done && r.gen == h.gen && r.ends == 0:
		err := r.err
		e.release(r)
		return r.status, err
	case !h.valid():
		return Status{}, ErrStale
	case r.state == inactive:
		return empty, nil
	}
	err := e.wait(r, op)
	return r.status, err
}

// WaitAll is Wait for all of hs but the zero ones, which it skips, and makes zero those that are not persistent. It
// tells each outcome to told, unless that is nil. It returns the first error and its index. It is recorded as op.
func (e *Engine) WaitAll(op perf.Op, hs []Handle, told func(i int, st Status)) (failed int, first error) {
	e.lock()
	began := e.rec.Begin(op, 0)
	for i := 0; i < len(hs); i++ {
		if told == nil {
			i += e.sweep(hs[i:])
		}
		if i == len(hs) {
			break
		}
		h := hs[i]
		if h.r == nil {
			continue
		}
		keep := h.r.ends&kept != 0
		st, err := e.waitFor(h, op)
		if told != nil {
			told(i, st)
		}
		if err != nil && first == nil {
			failed, first = i, err
		}
		if !keep {
			hs[i] = Handle{}
		}
	}
	e.rec.End(op, 0, began)
	e.unlock()
	return failed, first
}

// sweep is WaitAll for the first of hs as long as these have completed with nothing else to do, and tells how many that were.
// That is most of them, so it calls nothing.
func (e *Engine) sweep(hs []Handle) int {
	for i := range hs {
		r := hs[i].r
		if r == nil {
			continue
		}
		if r.state != done || r.gen != hs[i].gen || r.ends != 0 || r.err != nil || r.buf != nil {
			return i
		}
		r.free()
		r.next, e.idle = e.idle, r
		hs[i] = Handle{}
	}
	return len(hs)
}

// Test is Wait if the operation has completed; otherwise it makes some progress and reports false.
func (e *Engine) Test(h Handle) (Status, bool, error) {
	e.lock()
	began := e.rec.Begin(perf.Test, 0)
	st, ok, err := e.test(h)
	e.rec.End(perf.Test, 0, began)
	e.unlock()
	return st, ok, err
}

func (e *Engine) test(h Handle) (Status, bool, error) {
	r := h.r
	var lost error
	if !h.over() {
		lost = e.poke() // another goroutine may have collected it meanwhile
	}
	switch {
	case !h.valid():
		return Status{}, true, ErrStale
	case r.state == inactive:
		return empty, true, nil
	case r.state == active:
		return Status{}, lost != nil, lost
	}
	_, err := e.collect(r)
	return r.status, true, err
}

// poke makes progress once.
func (e *Engine) poke() error {
	e.progress()
	if e.moves.head != nil {
		e.work()
	}
	return e.broken
}

// WaitAny waits until one of hs has completed and returns its index; -1 if none is active. The caller collects it with
// Collect. It is recorded as op.
func (e *Engine) WaitAny(op perf.Op, hs []Handle) (int, error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Begin(op, 0)
	lane := e.rec.Enter(op, -1, -1, 0)
	defer func() {
		e.book.Leave(lane)
		e.rec.End(op, 0, began)
	}()
	g := goal{what: finishedAny, set: hs}
	e.await(&g)
	if g.found == none {
		return -1, e.broken
	}
	return g.found, nil
}

// TestAny makes progress once and reports the index of a completed request among hs, -1 if none is active; ok is false
// if all are under way. It is recorded as op.
func (e *Engine) TestAny(op perf.Op, hs []Handle) (i int, ok bool, err error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Begin(op, 0)
	defer func() { e.rec.End(op, 0, began) }()
	if i = firstDone(hs); i == none {
		lost := e.poke()
		if i = firstDone(hs); i == none {
			return 0, false, lost
		}
	}
	return i, true, nil
}

// PollCompleted reports whether Wait would return at once, after some progress if it would not have. A stale handle is done:
// Wait says what is wrong with it.
func (e *Engine) PollCompleted(h Handle) (bool, error) {
	e.lock()
	defer e.unlock()
	if !h.over() {
		if lost := e.poke(); !h.over() {
			return false, lost
		}
	}
	return true, nil
}

func (h Handle) over() bool { return !h.valid() || h.r.state != active }

// Completed reports whether h names an operation that has completed and was not collected, or is stale.
func (e *Engine) Completed(h Handle) bool {
	e.lock()
	defer e.unlock()
	return !h.valid() || h.r.state == done
}

// Persistent reports whether h names a persistent request.
func (h Handle) Persistent() bool {
	if h.r == nil {
		return false
	}
	h.r.e.lock()
	defer h.r.e.unlock()
	return h.valid() && h.r.ends&kept != 0
}

// Cancel ends a receive that has not been matched. Sends, and receives that have been, complete as usual. One that has
// announced its buffer ends when its sender has answered.
func (e *Engine) Cancel(h Handle) error {
	e.lock()
	defer e.unlock()
	r := h.r
	if !h.valid() {
		return ErrStale
	}
	if r.state == inactive {
		return ErrState
	}
	if !r.send && r.posted.Posted() {
		if r.ends&announced != 0 {
			e.revoke(r, nil)
			return nil
		}
		e.table(r.route.Context).RemovePosted(&r.posted)
		r.status = Status{Source: AnySource, Tag: AnyTag, Cancelled: true}
		e.complete(r, nil)
	}
	return nil
}

// Free lets go of a request. One that is under way completes unseen.
func (e *Engine) Free(h Handle) error {
	e.lock()
	defer e.unlock()
	if !h.valid() {
		return ErrStale
	}
	if h.r.state == active {
		h.r.ends |= unseen
		return nil
	}
	e.release(h.r)
	return nil
}

// SendInit makes a persistent send.
func (e *Engine) SendInit(to Route, buf []byte, mode Mode) Handle {
	return e.persistent(true, to, buf, mode)
}

// RecvInit makes a persistent receive.
func (e *Engine) RecvInit(from Route, buf []byte) Handle {
	return e.persistent(false, from, buf, Standard)
}

func (e *Engine) persistent(send bool, rt Route, buf []byte, mode Mode) Handle {
	e.lock()
	defer e.unlock()
	r := e.take()
	r.state, r.ends = inactive, kept
	r.send, r.mode, r.route, r.buf = send, mode, rt, buf
	return r.handle()
}

// Start begins the operation of a persistent request once more.
func (e *Engine) Start(h Handle) error {
	e.lock()
	defer e.unlock()
	r := h.r
	if !h.valid() {
		return ErrStale
	}
	if r.state != inactive {
		return ErrState
	}
	began := e.rec.Begin(perf.Start, len(r.buf))
	r.state = active
	var err error
	if began != 0 {
		e.rec.With(r.route.Peer, r.route.Tag)
	}
	if n := len(r.buf); r.send {
		err = e.start(r)
		e.rec.End(perf.Start, n, began)
	} else {
		e.receive(r)
		e.rec.End(perf.Start, n, began)
	}
	return err
}
