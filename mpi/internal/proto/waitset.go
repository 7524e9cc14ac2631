package proto

import (
	"context"

	"github.com/ibrun/ibrun/perf"
)

// Waitany and its like get a slice of handles with each call, of which most are the same as in the
// call before. To look at all of them each time would cost more than the messages. So the engine
// remembers for some slices which requests are in them, and where. A request that completes is
// appended to a list, and the call takes the first of that list.
//
// The program may change a slice between calls, so what the engine remembers is only a hint. An
// index is compared with the slice before it is used. Each call looks at some handles further on,
// and it looks at all of them before it sleeps. A request keeps its index when it has been
// collected by such a call. If the program puts a new request in its place, that is often the same
// Request, and nothing needs to be found out again.

const (
	rememberedSets = 4  // number of slices that the engine remembers
	smallSet       = 32 // a slice of at most so many handles is looked at completely
	looksPerCheck  = 8  // number of handles of a longer slice that are looked at between two polls
)

// waitSet is what the engine remembers of a slice.
type waitSet struct {
	first   *Handle // where the slice begins
	cursor  int     // index of the handle that is looked at next
	active  int     // index of a handle that was active when it was seen last
	changes int     // number of members that were released, or moved to another set
	// The members that have completed and have not been collected.
	head, tail *Request
}

// membership is the place of a request in a waitSet. It is valid while the flag member is set.
type membership struct {
	set        *waitSet
	index      int32
	listed     bool // in the list of the set
	next, prev *Request
}

// waitSets are the slices that the engine remembers.
type waitSets struct {
	sets [rememberedSets]waitSet
	next uint // which of them is replaced next, modulo their number
}

// of returns the set of a slice, and whether it is remembered. It forgets another one if it is not.
func (m *waitSets) of(hs []Handle) (s *waitSet, known bool) {
	for i := range m.sets {
		if s := &m.sets[i]; s.first == &hs[0] {
			return s, true
		}
	}
	s = &m.sets[m.next%rememberedSets]
	m.next++
	s.first, s.cursor, s.active = &hs[0], 0, 0
	return s, false
}

// add makes a request that is active or done a member, at an index.
func (s *waitSet) add(r *Request, i int) {
	m := &r.member
	if r.flags&inSet != 0 && m.set != s {
		m.set.remove(r)
	}
	if r.flags&inSet == 0 {
		r.flags |= inSet
		*m = membership{set: s}
	}
	if m.index = int32(i); r.state == done && !m.listed {
		s.list(r)
	}
}

// list appends a member that has completed to the list.
func (s *waitSet) list(r *Request) {
	m := &r.member
	if m.listed, m.prev, m.next = true, s.tail, nil; s.tail == nil {
		s.head = r
	} else {
		s.tail.member.next = r
	}
	s.tail = r
}

// unlist removes a member from the list, if it is there.
func (s *waitSet) unlist(r *Request) {
	m := &r.member
	if !m.listed {
		return
	}
	if m.prev == nil {
		s.head = m.next
	} else {
		m.prev.member.next = m.next
	}
	if m.next == nil {
		s.tail = m.prev
	} else {
		m.next.member.prev = m.prev
	}
	m.listed, m.prev, m.next = false, nil, nil
}

// remove makes a request no member any more.
func (s *waitSet) remove(r *Request) {
	s.unlist(r)
	s.changes++
	r.flags &^= inSet
}

// anyWait is a call that waits for any of some handles.
type anyWait struct {
	hs      []Handle
	set     *waitSet // nil for a short slice
	left    int      // number of handles that this call has not looked at
	active  bool     // this call has seen an active handle
	changes int      // set.changes when left was set
}

// waitFor returns a wait for any of hs. It looks at all of them if the slice is not remembered.
func (m *waitSets) waitFor(hs []Handle) anyWait {
	w := anyWait{hs: hs, left: len(hs)}
	if len(hs) <= smallSet {
		return w
	}
	known := false
	w.set, known = m.of(hs)
	w.changes = w.set.changes
	if h := hs[min(w.set.active, len(hs)-1)]; h.r != nil && h.valid() && h.r.state == active {
		w.active = true
	}
	if !known {
		w.look(len(hs))
	}
	return w
}

// find returns the index of a completed or stale handle. It returns allActive if it has found none,
// and -1 if no handle is active either.
func (w *anyWait) find() int {
	s := w.set
	if !w.remembered() {
		return firstCompleted(w.hs)
	}
	if i := w.listed(); i >= 0 {
		return i
	}
	if s.changes != w.changes {
		w.changes, w.left, w.active = s.changes, len(w.hs), false
	}
	if stale := w.look(looksPerCheck); stale >= 0 {
		return stale
	}
	if i := w.listed(); i >= 0 || w.left != 0 {
		return max(i, allActive)
	}
	if !w.active {
		return -1
	}
	return allActive
}

// listed returns the index of the first member that has completed; allActive if there is none.
func (w *anyWait) listed() int {
	for r := w.set.head; r != nil; r = w.set.head {
		if i := int(r.member.index); i < len(w.hs) && w.hs[i] == r.handle() {
			return i
		}
		w.set.remove(r) // it has moved, and is found again, or it is not in the slice any more
	}
	return allActive
}

// look looks at the next n handles, or as many as are left, and makes them members. It returns the
// index of a stale one, or -1.
func (w *anyWait) look(n int) int {
	s := w.set
	for n = min(n, w.left); n > 0; n-- {
		if s.cursor >= len(w.hs) {
			s.cursor = 0
		}
		i := s.cursor
		h := w.hs[i]
		if h.r != nil && !h.valid() {
			return i // it is found again if the caller looks again
		}
		s.cursor++
		w.left--
		switch {
		case h.r == nil:
		case h.r.state == active:
			s.active, w.active = i, true
			s.add(h.r, i)
		case h.r.state == done:
			s.add(h.r, i)
		}
	}
	return -1
}

// looking reports whether the call must look at more handles before it sleeps.
func (w *anyWait) looking() bool { return w.remembered() && w.left != 0 }

// remembered reports whether set is that of the slice. While the call waits the engine may forget
// the slice, if other goroutines wait for more slices than it remembers.
func (w *anyWait) remembered() bool { return w.set != nil && w.set.first == &w.hs[0] }

// take collects the request with an index, and sets its handle to zero unless it is persistent.
func (w *anyWait) take(q *Requests, op perf.Op, i int) (Status, error) {
	h := w.hs[i]
	keep := h.valid() && h.r.flags&persistent != 0
	member := h.valid() && h.r.flags&inSet != 0
	st, err := q.waitHandle(h, op)
	if !keep {
		w.hs[i] = Handle{}
		if member && h.r.state == free { // its next use may be at the same place
			h.r.flags |= inSet
		}
	}
	return st, err
}

// awaitAny blocks until a handle has completed, and returns its index; -1 if none is active. It
// fails with a StoppedError if ctx ends, and if the engine fails.
func (q *Requests) awaitAny(ctx context.Context, op perf.Op, w *anyWait) (int, error) {
	g := goal{watch: watch{what: anyCompleted}, any: *w}
	if !q.waiters.reached(&g) {
		lane := q.rec.Active.Enter(op, -1, -1, 0)
		err := q.waiters.awaitContext(ctx, &g)
		q.rec.Configured.Leave(lane)
		if err != nil {
			return -1, err
		}
	}
	if g.found == allActive {
		return -1, q.waiters.failure.err
	}
	return g.found, nil
}

// checkAny returns the index of a completed handle, or -1 if none is active. If none has completed
// it makes progress once; ok is false if none has after that as well.
func (q *Requests) checkAny(w *anyWait) (i int, ok bool, err error) {
	if i = w.findNow(); i == allActive {
		failure := q.poller.pollInTest()
		if i = w.findNow(); i == allActive {
			return 0, false, failure
		}
	}
	return i, true, nil
}

// findNow is find that looks further until it has found an active handle.
func (w *anyWait) findNow() int {
	i := w.find()
	for i == allActive && !w.active && w.looking() {
		i = w.find()
	}
	return i
}

// WaitAny blocks until one of hs has completed or ctx has ended. It collects it and returns its
// index; -1 if none is active. The call is recorded as op.
func (q *Requests) WaitAny(ctx context.Context, op perf.Op, hs []Handle) (int, Status, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.rec.Active.Begin(op, 0)
	defer func() { q.rec.Active.End(op, 0, began) }()
	w := q.sets.waitFor(hs)
	i, err := q.awaitAny(ctx, op, &w)
	if i < 0 {
		return -1, emptyStatus, err
	}
	st, err := w.take(q, op, i)
	return i, st, err
}

// TestAny is WaitAny without blocking: ok is false if none has completed.
func (q *Requests) TestAny(op perf.Op, hs []Handle) (i int, st Status, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.rec.Active.Begin(op, 0)
	defer func() { q.rec.Active.End(op, 0, began) }()
	w := q.sets.waitFor(hs)
	i, ok, err = q.checkAny(&w)
	if !ok || i < 0 {
		return -1, emptyStatus, ok, err
	}
	st, err = w.take(q, op, i)
	return i, st, true, err
}

// WaitSome blocks until at least one of hs has completed or ctx has ended. It collects all that are
// known to have completed, and calls report for each. It returns their number; -1 if none is
// active. The call is recorded as op.
func (q *Requests) WaitSome(ctx context.Context, op perf.Op, hs []Handle, report func(i int, st Status, err error)) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.rec.Active.Begin(op, 0)
	defer func() { q.rec.Active.End(op, 0, began) }()
	w := q.sets.waitFor(hs)
	i, err := q.awaitAny(ctx, op, &w)
	if i < 0 {
		return -1, err
	}
	return w.takeAll(q, op, i, report), nil
}

// TestSome is WaitSome without blocking: it returns 0 if none has completed.
func (q *Requests) TestSome(op perf.Op, hs []Handle, report func(i int, st Status, err error)) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := q.rec.Active.Begin(op, 0)
	defer func() { q.rec.Active.End(op, 0, began) }()
	w := q.sets.waitFor(hs)
	i, ok, err := q.checkAny(&w)
	switch {
	case !ok:
		return 0, err
	case i < 0:
		return -1, nil
	}
	return w.takeAll(q, op, i, report), nil
}

// takeAll collects the request with index i, and all others that are known to have completed.
func (w *anyWait) takeAll(q *Requests, op perf.Op, i int, report func(i int, st Status, err error)) (n int) {
	for ; i >= 0 && n < len(w.hs); n++ {
		st, err := w.take(q, op, i)
		report(i, st, err)
		if w.remembered() {
			i = w.listed()
		} else {
			i = firstCompleted(w.hs)
		}
	}
	return n
}

// allActive is the result of find while it knows no handle that has completed.
const allActive = -2

// firstCompleted returns the index of a completed or stale request of hs. It returns allActive if
// there is none, and -1 if no request is active either.
func firstCompleted(hs []Handle) int {
	found := -1
	for i, h := range hs {
		switch {
		case h.r == nil:
		case !h.valid() || h.r.state == done:
			return i
		case h.r.state == active:
			found = allActive
		}
	}
	return found
}
