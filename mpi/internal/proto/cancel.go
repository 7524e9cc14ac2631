package proto

// Requests that the program does not wait for: it cancels or frees them.

// Cancel cancels an operation that has not been matched. One that has been matched completes as
// usual, as does a send whose message is sent without waiting for the receiver. A send, and a
// receive that has sent an RTR, end when the peer has answered. Requests of collectives cannot be
// cancelled: those of schedules and of StartGrequest.
func (q *Requests) Cancel(h Handle) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := h.r
	if !h.valid() {
		return ErrStale
	}
	if r.state == inactive || r.flags&noCancel != 0 {
		return ErrState
	}
	if r.flags&hasCallbacks != 0 {
		c, complete := q.callbacks[r], r.state == done
		return q.unlocked(func() error { return c.Cancel(complete) })
	}
	q.cancel(r)
	return nil
}

// Free releases a request. If it is active it is released when it completes. An active request of a
// collective cannot be freed.
func (q *Requests) Free(h Handle) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.valid() && h.r.flags&noCancel != 0 && h.r.state != inactive {
		return ErrState
	}
	return q.discard(h)
}

// Abandon is Free for a request of StartGrequest that the program has not seen.
func (q *Requests) Abandon(h Handle) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.discard(h)
}

func (q *Requests) discard(h Handle) error {
	if !h.valid() {
		return ErrStale
	}
	if h.r.state == active {
		h.r.flags |= detached
		return nil
	}
	if h.r.flags&hasCallbacks != 0 {
		return q.freeGrequest(h.r)
	}
	if h.r.schedule != nil { // of a persistent request
		h.r.schedule.freed()
		h.r.schedule = nil
	}
	q.release(h.r)
	return nil
}
