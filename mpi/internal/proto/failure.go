package proto

// A peer that fails makes the whole engine fail: every operation in progress, and every later one,
// ends with an error. A peer that finalizes, that is, closes its transport in order, is not a
// failure if this process does not need it any more: then only operations with it fail. The same
// holds for a peer that is lost without having been used: it may have finalized before this process
// connected to it.

// peerClosed ends what needs a process that has closed. links call it.
func (e *Engine) peerClosed(n int32, err error) {
	e.receives.completeRevokedOf(n)
	e.departures.endOperationsWith(n, err)
	e.waiters.rouseAll()
}

// failed must be called when failure.err has been set, which links do if a process was lost. The
// programs of the schedules in progress learn of it before a call returns the error.
func (e *Engine) failed(err error) {
	e.hints.plainSends = false
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if s := r.schedule; s != nil && s.req == r && r.state == active && !e.contexts.ended.HasEnded(r.route.Context) {
				s.program.Abandoned(err)
			}
		}
	}
	e.waiters.rouseAll()
}
