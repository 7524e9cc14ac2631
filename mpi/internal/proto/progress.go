package proto

import "github.com/ibrun/ibrun/fabric"

// progress polls the transport once, handles its events, and sends queued messages. It reports whether anything happened.
func (e *Engine) progress() bool {
	if len(e.schedules.polled.counted) != 0 {
		e.schedules.polled.uncountSleeper()
	}
	if e.waiters.sleeping {
		e.waiters.rouseSleeper() // polling disarms the transport, so nothing would wake the goroutine that sleeps on it
		e.waiters.background.leave = true
	}
	e.waiters.yieldTimer.Poll()
	if len(e.links.combining.peers) != 0 {
		e.links.combining.flush() // Poll does not poll each part of a domain
	}
	n, err := e.links.domain.Poll(e.events[:])
	if err != nil {
		e.links.fail(-1, err)
		return true
	}
	for i := range n {
		ev := &e.events[i]
		switch ev.Kind {
		case fabric.Message:
			if !e.handleMessage(ev.Peer, ev.Data) {
				e.links.fail(ev.Peer, fabric.ErrCorrupt)
			}
		case fabric.Done:
			e.transfers.handleCompletion(ev.Token, ev.Err)
		case fabric.PeerDown:
			e.links.fail(ev.Peer, ev.Err)
		case fabric.Rerouted:
			e.reroute(ev.Peer)
		}
	}
	if len(e.schedules.polled.list) != 0 && e.schedules.poll() {
		n++
	}
	if (n != 0 || e.waiters.words != 0) && len(e.waiters.watchers) != 0 {
		e.waiters.rouseReached()
	}
	if len(e.links.blocked) != 0 && e.links.flushBlocked() {
		e.waiters.rouseReached()
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

// runTransfer moves the block of the first transfer in the queue, or does the next steps of a schedule. It does not hold the lock
// meanwhile.
func (e *Engine) runTransfer() {
	t := e.transfers.pop()
	if t.state == transferSchedule {
		t.state = transferNone
		e.schedules.advance(t.req.schedule, true)
		return
	}
	e.transfers.run(t)
}

// testsBeforeYield is how often pollInTest polls between two yields. A poll takes some 20 ns, a yield up to ten times as long.
const testsBeforeYield = 16

// pollInTest is pollOnce for a call that does not wait, such as Test. A program may make such calls in a loop until another
// process has done something, or another goroutine: that of an Idup, or one of its own. If they need the processor on which the
// loop runs, they get it late: when the kernel or the runtime preempts the loop, after some milliseconds. So pollInTest yields to
// them now and then. Meanwhile the lock is not held.
func (e *Engine) pollInTest() error {
	err := e.pollOnce()
	w := &e.waiters
	switch w.tests++; {
	case w.tests%testsBeforeYield != 0:
	case w.spin == spinOversubscribed && !w.paused():
		e.waiters.yieldToOthers()
	case w.oneProcessor:
		e.waiters.yieldToGoroutines()
	}
	return err
}

// Poll makes progress once.
func (e *Engine) Poll() error {
	e.lock()
	defer e.unlock()
	return e.pollOnce()
}

// SleepAtOnce sets whether goroutines that wait sleep immediately, if there are fewer processors than processes. So they should
// while processes initialise and finalize: those that are waited for have much to do, for which they need the processors.
func (e *Engine) SleepAtOnce(on bool) {
	e.lock()
	defer e.unlock()
	e.waiters.maxYields = yieldsBeforeSleep
	if on && e.waiters.spin == spinOversubscribed {
		e.waiters.maxYields = 0
	}
}

// reached reports whether a goal has been reached that does not concern the waiting goroutines themselves; see
// waiters.reached.
func (e *Engine) reached(x watch) bool {
	switch x.what {
	case messageMatches:
		t := e.contexts.table(x.from.Context)
		return e.contexts.isEnded(t) || !t.Allows(x.from.Rank, x.from.Tag) || t.FindUnexpected(x.from.Rank, x.from.Tag) != nil
	case messageOrExit:
		return uint64(e.failure.finalized) > x.value ||
			e.contexts.table(x.from.Context).FindUnexpected(AnySource, AnyTag) != nil
	case bufferUnused:
		return e.buffered.buffer.Unused()
	case contextIdle, partitionedIdle:
		return !e.requests.activeIn(x.from.Context, x.what == partitionedIdle)
	case flushed:
		return e.flushIsOver(x.value)
	case segmentMapped:
		return x.mapping.try()
	case channelsClosed:
		return len(e.requests.channels.open) == 0 || e.requests.channels.stop
	}
	return len(e.links.blocked) == 0 && e.transfers.head == nil
}

// arm arms the transport, for a goroutine that is about to sleep on it. ready says that it must not sleep, because something was
// done after that. The processes that share words count this one as a sleeper until polled.uncountSleeper is called.
func (e *Engine) arm() (fd int, ready bool, err error) {
	e.schedules.polled.countSleeper()
	fd, ready, err = e.links.domain.Arm()
	if err != nil {
		e.schedules.polled.uncountSleeper()
		return fd, false, err
	}
	ready = ready || len(e.schedules.polled.list) != 0 && e.schedules.poll() ||
		len(e.links.blocked) != 0 && e.links.flushBlocked()
	return fd, ready, nil
}
