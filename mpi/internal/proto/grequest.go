package proto

// StartGrequest returns a generalized request: it completes when CompleteGrequest is called, and not by a message. Otherwise it
// is like any other request.
func (e *Engine) StartGrequest() Handle {
	e.lock()
	defer e.unlock()
	r := e.requests.take(e)
	r.status = emptyStatus
	r.route = Route{Peer: ProcNull, Context: noContext}
	r.send = true
	return r.handle()
}

// CompleteGrequest completes a generalized request with err, unless it has completed before.
func (e *Engine) CompleteGrequest(h Handle, err error) {
	e.lock()
	if h.r.state == active && h.r.gen == h.gen {
		e.complete(h.r, err)
	}
	e.unlock()
}
