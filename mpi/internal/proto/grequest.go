package proto

import "errors"

// Callbacks are functions of the program that are called for a generalized request: without the
// engine's lock, so they may call the engine. None of them may be nil. None may panic, or end its
// goroutine.
type Callbacks struct {
	// Query is called by the call that collects the completed request, for the status. Its error is
	// that of the operation.
	Query func(*Status) error
	// Free is called once: after Query, or, if the request was freed, by the later one of Free and
	// CompleteGrequest.
	Free func() error
	// Cancel is called by Cancel, with whether CompleteGrequest was called.
	Cancel func(complete bool) error
}

// StartGrequest returns a generalized request for a collective: it completes when CompleteGrequest
// is called, and not by a message.
func (q *Requests) StartGrequest() Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.newGrequest()
	r.flags |= noCancel
	return r.handle()
}

// StartGrequestWith returns a generalized request with callbacks. It can be cancelled and freed,
// like any other request.
func (q *Requests) StartGrequestWith(c Callbacks) Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.newGrequest()
	if q.callbacks == nil {
		q.callbacks = map[*Request]Callbacks{}
	}
	r.flags |= hasCallbacks
	q.callbacks[r] = c
	return r.handle()
}

func (q *Requests) newGrequest() *Request {
	r := q.take()
	r.status = emptyStatus
	r.route = Route{Peer: ProcNull, Context: noContext}
	r.send = true
	return r
}

// CompleteGrequest completes a generalized request with err. If the request was freed before, it
// returns the error of the callback Free. It fails with ErrStale if the request has completed
// before.
func (q *Requests) CompleteGrequest(h Handle, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := h.r
	if r.state != active || r.gen != h.gen {
		return ErrStale
	}
	if r.flags&detached == 0 || r.flags&hasCallbacks == 0 {
		q.complete(r, err)
		return nil
	}
	c := q.claim(r)
	failed := q.unlocked(c.Free)
	q.complete(r, err) // releases it
	return failed
}

// claim makes the handles of a request with callbacks stale: its callbacks are called by the
// caller, who must then release the request or complete it. Until then it cannot be used again.
func (q *Requests) claim(r *Request) Callbacks {
	c := q.callbacks[r]
	delete(q.callbacks, r)
	r.flags &^= hasCallbacks
	r.gen++
	return c
}

// unlocked calls f without the lock.
func (q *Requests) unlocked(f func() error) error {
	q.mu.Unlock()
	defer q.mu.Lock()
	return f()
}

// collectGrequest is collect for a request with callbacks. The status of the request remains until
// the lock is released.
func (q *Requests) collectGrequest(r *Request) error {
	c := q.claim(r)
	st, err := r.status, r.err
	err = errors.Join(err, q.unlocked(func() error { return errors.Join(c.Query(&st), c.Free()) }))
	r.status = st
	q.release(r)
	return err
}

// freeGrequest is release for a request with callbacks that has completed.
func (q *Requests) freeGrequest(r *Request) error {
	c := q.claim(r)
	err := q.unlocked(c.Free)
	q.release(r)
	return err
}
