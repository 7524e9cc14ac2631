package proto

// The functions of this file end operations that cannot complete: this process has left their
// context, or a process that they need has left it or has finalized.

// handleRefuse handles Refuse.
func (d *departures) handleRefuse(peer int32, w [5]uint64) bool {
	r := d.receives.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || r.transfer.running || w[1] > 1 {
		return false
	}
	d.sends.releaseSend(r)
	if r.flags&withdrawing != 0 {
		r.status = cancelledStatus // as it was to be: its message was not matched
		d.receives.requests.complete(r, nil)
	} else {
		d.receives.requests.complete(r, d.err(peer, w[1] == 1 || d.ended.IsFreed(r.route.Context)))
	}
	return true
}

// endHopeless completes the receives whose messages cannot come any more.
func (d *departures) endHopeless() {
	for _, slab := range d.receives.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state != active || r.send || !r.posted.Posted() || r.flags&rtrRevoked != 0 {
				continue
			}
			if err := d.errorOf(r.route); err != nil {
				d.endReceive(r, err)
			} else if r.route.Rank == AnySource {
				d.watchRoute(r.route) // the next process, if the one before has left
			}
		}
	}
}

// endReceive completes a posted receive with an error.
func (d *departures) endReceive(r *Request, err error) {
	if r.flags&rtrSent != 0 {
		d.receives.revokeRTR(r, err)
		return
	}
	d.receives.contexts.table(r.route.Context).RemovePosted(&r.posted)
	d.receives.requests.complete(r, err)
}

// endOperationsWith completes the operations that need a process which has finalized. All that it
// has sent has arrived.
func (d *departures) endOperationsWith(n int32, err error) {
	d.links.failure.departed, d.failed = true, true
	for _, slab := range d.receives.requests.slabs {
		for i := range slab {
			switch r := &slab[i]; {
			case r.state != active || r.transfer.running:
			case r.send && r.awaitsPeer(n):
				d.sends.releaseSend(r)
				if d.ended.IsFreed(r.route.Context) {
					// The process has not received the message before it freed the communicator.
					d.receives.requests.complete(r, ErrFreed)
				} else {
					d.rec.Configured.LostPeer()
					d.receives.requests.complete(r, err)
				}
			case !r.send && r.transfer.peer == n && r.transfer.state == transferCopying:
				d.receives.finishTransfer(r, err)
			}
		}
	}
	d.endHopeless()
}
