package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// SendInit returns a persistent send of the elements of d. d is copied.
func (e *Engine) SendInit(to Route, d *datatype.Buffer, mode Mode) Handle {
	return e.newPersistent(true, to, d, mode)
}

// RecvInit returns a persistent receive into the elements of d. d is copied.
func (e *Engine) RecvInit(from Route, d *datatype.Buffer) Handle {
	return e.newPersistent(false, from, d, Standard)
}

func (e *Engine) newPersistent(send bool, rt Route, d *datatype.Buffer, mode Mode) Handle {
	e.lock()
	defer e.unlock()
	r := e.newBufferRequest(send, rt, d, mode, nil)
	e.requests.makePersistent(r)
	return r.handle()
}

// Start starts the operation of a persistent request.
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
	began := e.rec.Active.Begin(perf.Start, r.size())
	r.state = active
	var err error
	if began != 0 {
		e.rec.SetPeer(r.route.Context, r.route.Peer, r.route.Tag)
	}
	n := r.route.Moves(r.size())
	switch {
	case r.flags&contextEnded != 0:
		r.status, r.err, n = emptyStatus, nil, 0
		e.requests.complete(r, ErrContextEnded)
	case r.schedule != nil:
		e.schedules.restart(r.schedule)
	case r.send:
		err = e.sends.start(r)
	default:
		e.receives.start(r)
	}
	e.rec.Active.End(perf.Start, n, began)
	return r.operationError(err)
}
