package proto

// Requests that the program does not wait for: it cancels or frees them.

// Cancel cancels an operation that has not been matched. One that has been matched completes as
// usual, as does a send whose message is sent without waiting for the receiver. A send, and a
// receive that has sent an RTR, end when the peer has answered. Requests of collectives cannot be
// cancelled: those of schedules and of StartGrequest.
func (e *Engine) Cancel(h Handle) error {
	e.lock()
	defer e.unlock()
	r := h.r
	if !h.valid() {
		return ErrStale
	}
	if r.state == inactive || r.flags&noCancel != 0 {
		return ErrState
	}
	if r.flags&hasCallbacks != 0 {
		c, complete := e.callbacks[r], r.state == done
		return e.unlocked(func() error { return c.Cancel(complete) })
	}
	e.cancel(r)
	return nil
}

// cancel is Cancel for a request that is not inactive.
func (e *Engine) cancel(r *Request) {
	switch {
	case r.send:
		r.withdraw()
	case !r.posted.Posted():
	case r.flags&rtrSent != 0:
		r.revokeRTR(nil)
	default:
		e.contexts.table(r.route.Context).RemovePosted(&r.posted)
		r.status = cancelledStatus
		e.complete(r, nil)
	}
}

// Free releases a request. If it is active it is released when it completes. An active request of a
// collective cannot be freed.
func (e *Engine) Free(h Handle) error {
	e.lock()
	defer e.unlock()
	if h.valid() && h.r.flags&noCancel != 0 && h.r.state != inactive {
		return ErrState
	}
	return e.free(h)
}

// Abandon is Free for a request of StartGrequest that the program has not seen.
func (e *Engine) Abandon(h Handle) error {
	e.lock()
	defer e.unlock()
	return e.free(h)
}

func (e *Engine) free(h Handle) error {
	if !h.valid() {
		return ErrStale
	}
	if h.r.state == active {
		h.r.flags |= detached
		return nil
	}
	if h.r.flags&hasCallbacks != 0 {
		return e.freeGrequest(h.r)
	}
	if h.r.schedule != nil { // of a persistent request
		h.r.schedule.freed()
		h.r.schedule = nil
	}
	e.release(h.r)
	return nil
}
