package proto

import "github.com/ibrun/ibrun/fabric"

// progress polls the transport once, handles its events, and sends queued messages. It reports whether anything happened.
func (e *Engine) progress() bool {
	if len(e.polled.counted) != 0 {
		e.uncountSleeper()
	}
	if e.waiters.sleeping {
		e.waiters.rouseSleeper() // polling disarms the transport, so nothing would wake the goroutine that sleeps on it
		e.background.leave = true
	}
	e.waiters.yieldTimer.Poll()
	if len(e.combining.peers) != 0 {
		e.combining.flush() // Poll does not poll each part of a domain
	}
	n, err := e.domain.Poll(e.events[:])
	if err != nil {
		e.fail(-1, err)
		return true
	}
	for i := range n {
		ev := &e.events[i]
		switch ev.Kind {
		case fabric.Message:
			if !e.handleMessage(ev.Peer, ev.Data) {
				e.fail(ev.Peer, fabric.ErrCorrupt)
			}
		case fabric.Done:
			e.handleCompletion(ev.Token, ev.Err)
		case fabric.PeerDown:
			e.fail(ev.Peer, ev.Err)
		case fabric.Rerouted:
			e.reroute(ev.Peer)
		}
	}
	if len(e.polled.list) != 0 && e.pollSchedules() {
		n++
	}
	if (n != 0 || e.waiters.words != 0) && len(e.waiters.watchers) != 0 {
		e.rouseReached()
	}
	if len(e.blocked) != 0 && e.flushBlocked() {
		return true
	}
	return n != 0
}

// pollOnce makes progress once, and moves one block if one waits for that.
func (e *Engine) pollOnce() error {
	if !e.progress() {
		e.idlePoll()
	}
	if e.transfers.head != nil {
		e.runTransfer()
	}
	return e.failure.err
}

// Poll makes progress once.
func (e *Engine) Poll() error {
	e.lock()
	defer e.unlock()
	return e.pollOnce()
}
