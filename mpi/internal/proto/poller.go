package proto

import "github.com/ibrun/ibrun/fabric"

// poller polls the transport. It passes messages and completion events to the parts that handle
// them, and has queued transfers and schedules continued. It runs in the goroutine of a call, or in
// one that waits. It is called with the lock of the engine.
type poller struct {
	waiters   *waiters
	links     *links
	transfers *transfers
	sends     *sends
	receives  *receives
	schedules *Schedules
	in        dispatcher       // handles the messages that have arrived
	rerouted  func(peer int32) // another domain has taken over
	idle      func()           // is called after a poll in vain that did not wait

	events [32]fabric.Event // result of Poll of the domain
}

// progress polls the transport once, handles its events, and sends queued messages. It reports
// whether anything happened.
func (p *poller) progress() bool {
	if len(p.schedules.polled.counted) != 0 {
		p.schedules.polled.uncountSleeper()
	}
	if p.waiters.sleeping {
		// Polling disarms the transport, so nothing would wake the goroutine that sleeps on it.
		p.waiters.rouseSleeper()
		p.waiters.background.leave = true
	}
	p.waiters.yieldTimer.Poll()
	l := p.links
	if len(l.combining.peers) != 0 {
		l.combining.flush() // Poll does not poll each part of a domain
	}
	n, err := l.domain.Poll(p.events[:])
	if err != nil {
		p.links.fail(-1, err)
		return true
	}
	for i := range n {
		ev := &p.events[i]
		switch ev.Kind {
		case fabric.Message:
			if !p.in.handleMessage(ev.Peer, ev.Data) {
				p.links.fail(ev.Peer, fabric.ErrCorrupt)
			}
		case fabric.Done:
			p.complete(ev.Token, ev.Err)
		case fabric.PeerDown:
			p.links.fail(ev.Peer, ev.Err)
		case fabric.Rerouted:
			p.rerouted(ev.Peer)
		}
	}
	if len(p.schedules.polled.list) != 0 && p.schedules.poll() {
		n++
	}
	if (n != 0 || p.waiters.words != 0) && len(p.waiters.watchers) != 0 {
		p.waiters.rouseReached()
	}
	if len(p.links.blocked) != 0 && p.links.flushBlocked() {
		p.waiters.rouseReached()
		return true
	}
	return n != 0
}

// pollOnce makes progress once, and moves one block if one waits for that.
func (p *poller) pollOnce() error {
	if !p.progress() {
		p.idle()
	}
	if p.transfers.head != nil {
		p.transfer()
	}
	return p.waiters.failure.err
}

// transfer moves the block of the first transfer in the queue, or does the next steps of a
// schedule. It does not hold the lock meanwhile.
func (p *poller) transfer() {
	switch t := p.transfers.pop(); {
	case t.state == transferSchedule:
		t.state = transferNone
		p.schedules.advance(t.req.schedule, true)
	case !t.req.send:
		p.receives.runRead(t)
	case t.claims == nil:
		p.sends.runPut(t)
	default:
		p.sends.runAssist(t)
	}
}

// complete handles a completion event: the end of a read or write that did not finish immediately.
func (p *poller) complete(token uint64, err error) {
	defer p.transfers.rec.Configured.Ended()
	switch r := p.transfers.requests.byID(token); {
	case r == nil:
	case !r.send:
		p.receives.handleCompletion(r, err)
	case r.transfer.state == transferPutting:
		p.sends.finishPut(r, err)
	}
}

// testsBeforeYield is how often pollInTest polls between two yields. A poll takes some 20 ns, a
// yield up to ten times as long.
const testsBeforeYield = 16

// pollInTest is pollOnce for a call that does not wait, such as Test. A program may make such calls
// in a loop until another process has done something, or another goroutine: that of an Idup, or one
// of its own. If they need the processor on which the loop runs, they get it late: when the kernel
// or the runtime preempts the loop, after some milliseconds. So pollInTest yields to them now and
// then. Meanwhile the lock is not held.
func (p *poller) pollInTest() error {
	err := p.pollOnce()
	w := p.waiters
	switch w.tests++; {
	case w.tests%testsBeforeYield != 0:
	case w.spin == spinOversubscribed && !w.paused():
		p.waiters.yieldToOthers()
	case w.oneProcessor:
		p.waiters.yieldToGoroutines()
	}
	return err
}

// arm arms the transport, for a goroutine that is about to sleep on it. ready says that it must not
// sleep, because something was done after that. The processes that share words count this one as a
// sleeper until polled.uncountSleeper is called.
func (p *poller) arm() (fd int, ready bool, err error) {
	p.schedules.polled.countSleeper()
	fd, ready, err = p.links.domain.Arm()
	if err != nil {
		p.schedules.polled.uncountSleeper()
		return fd, false, err
	}
	ready = ready || len(p.schedules.polled.list) != 0 && p.schedules.poll() ||
		len(p.links.blocked) != 0 && p.links.flushBlocked()
	return fd, ready, nil
}
