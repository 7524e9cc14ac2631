package proto

// Poll makes progress once.
func (e *Engine) Poll() error {
	e.lock()
	defer e.unlock()
	return e.poller.pollOnce()
}

// SleepAtOnce sets whether goroutines that wait sleep immediately, if there are fewer processors
// than processes. So they should while processes initialise and finalize: those that are waited for
// have much to do, for which they need the processors.
func (e *Engine) SleepAtOnce(on bool) {
	e.lock()
	defer e.unlock()
	e.waiters.maxYields = yieldsBeforeSleep
	if on && e.waiters.spin == spinOversubscribed {
		e.waiters.maxYields = 0
	}
}

// reached reports whether a goal has been reached that does not concern the waiting goroutines
// themselves; see waiters.reached.
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
		return e.flushes.isOver(x.value)
	case segmentMapped:
		return x.mapping.try()
	case channelsClosed:
		return len(e.requests.channels.open) == 0 || e.requests.channels.stop
	}
	return len(e.links.blocked) == 0 && e.transfers.head == nil
}
