package proto

import "errors"

// Callbacks are functions of the program that are called for a generalized request: without the engine's lock, so they may call
// the engine. None of them may be nil. None may panic, or end its goroutine.
type Callbacks struct {
	// Query is called by the call that collects the completed request, for the status. Its error is that of the operation.
	Query func(*Status) error
	// Free is called once: after Query, or, if the request was freed, by the later one of Free and CompleteGrequest.
	Free func() error
	// Cancel is called by Cancel, with whether CompleteGrequest was called.
	Cancel func(complete bool) error
}

// StartGrequest returns a generalized request for a collective: it completes when CompleteGrequest is called, and not by a
// message.
func (e *Engine) StartGrequest() Handle {
	e.lock()
	defer e.unlock()
	r := e.newGrequest()
	r.flags |= noCancel
	return r.handle()
}

// StartGrequestWith returns a generalized request with callbacks. It can be cancelled and freed, like any other request.
func (e *Engine) StartGrequestWith(c Callbacks) Handle {
	e.lock()
	defer e.unlock()
	r := e.newGrequest()
	if e.callbacks == nil {
		e.callbacks = map[*Request]Callbacks{}
	}
	r.flags |= hasCallbacks
	e.callbacks[r] = c
	return r.handle()
}

func (e *Engine) newGrequest() *Request {
	r := e.requests.take(e)
	r.status = emptyStatus
	r.route = Route{Peer: ProcNull, Context: noContext}
	r.send = true
	return r
}

// CompleteGrequest completes a generalized request with err. If the request was freed before, it returns the error of the
// callback Free. It fails with ErrStale if the request has completed before.
func (e *Engine) CompleteGrequest(h Handle, err error) error {
	e.lock()
	defer e.unlock()
	r := h.r
	if r.state != active || r.gen != h.gen {
		return ErrStale
	}
	if r.flags&detached == 0 || r.flags&hasCallbacks == 0 {
		e.complete(r, err)
		return nil
	}
	c := e.claim(r)
	failed := e.unlocked(c.Free)
	e.complete(r, err) // releases it
	return failed
}

// claim makes the handles of a request with callbacks stale: its callbacks are called by the caller, who must then release the
// request or complete it. Until then it cannot be used again.
func (e *Engine) claim(r *Request) Callbacks {
	c := e.callbacks[r]
	delete(e.callbacks, r)
	r.flags &^= hasCallbacks
	r.gen++
	return c
}

// unlocked calls f without the lock.
func (e *Engine) unlocked(f func() error) error {
	e.unlock()
	defer e.lock()
	return f()
}

// collectGrequest is collect for a request with callbacks. The status of the request remains until the lock is released.
func (e *Engine) collectGrequest(r *Request) error {
	c := e.claim(r)
	st, err := r.status, r.err
	err = errors.Join(err, e.unlocked(func() error { return errors.Join(c.Query(&st), c.Free()) }))
	r.status = st
	e.release(r)
	return err
}

// freeGrequest is release for a request with callbacks that has completed.
func (e *Engine) freeGrequest(r *Request) error {
	c := e.claim(r)
	err := e.unlocked(c.Free)
	e.release(r)
	return err
}
