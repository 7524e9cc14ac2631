package proto

// A request has a channel if the program has asked for one, so that it can wait in a select
// statement. The channel is closed when the operation completes, and the program need not receive
// from it.
//
// The engine must make progress while the program waits for a channel. So while any channel is
// open, one goroutine of the engine waits, as one that calls Wait does. It is one for all channels,
// and ends with the last of them.

// channels are the channels of requests that have not completed. They are protected by the engine's
// lock.
type channels struct {
	open  map[*Request]chan struct{} // the requests with the flag hasChannel
	ended chan struct{}              // closed when serveChannels ends; nil: it does not run
	stop  bool                       // that goroutine is to end
}

// closed is the channel of all requests that have completed.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Closed returns a channel that is closed.
func Closed() <-chan struct{} { return closed }

// Done returns a channel that is closed when Wait would return immediately, and when the engine is
// closed. While the operation is in progress, all calls return the same channel.
func (q *Requests) Done(h Handle) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	cs := &q.channels
	if h.finished() || q.waiters.failure.err != nil || cs.stop {
		return closed
	}
	if h.r.flags&hasChannel == 0 {
		if cs.open == nil {
			cs.open = map[*Request]chan struct{}{}
		}
		h.r.flags |= hasChannel
		cs.open[h.r] = make(chan struct{})
	}
	if cs.ended == nil {
		cs.ended = make(chan struct{})
		go q.serveChannels()
	}
	return cs.open[h.r]
}

// serveChannels makes progress until all channels are closed. If the engine fails, or is about to
// be closed, it closes those that are left.
func (q *Requests) serveChannels() {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := goal{watch: watch{what: channelsClosed}}
	q.waiters.await(&g)
	for r := range q.channels.open {
		q.channels.close(r)
	}
	close(q.channels.ended)
	q.channels.ended = nil
}

// close closes the channel of a request.
func (cs *channels) close(r *Request) {
	close(cs.open[r])
	delete(cs.open, r)
	r.flags &^= hasChannel
}

// closeChannel closes the channel of a request that has completed. After the last one it wakes the
// goroutine of serveChannels.
func (q *Requests) closeChannel(r *Request) {
	q.channels.close(r)
	if len(q.channels.open) == 0 {
		q.waiters.rouseServer()
	}
}

// rouseServer wakes the goroutine of serveChannels if it sleeps.
func (w *waiters) rouseServer() {
	for _, x := range w.watchers {
		if x.watch.what == channelsClosed {
			w.rouse(x)
			return
		}
	}
}

// stopChannels closes all channels, also those that Done returns from now on. It returns when the
// goroutine of serveChannels has ended. The caller must hold the lock, which is released meanwhile.
func (q *Requests) stopChannels() {
	cs := &q.channels
	cs.stop = true
	if cs.ended == nil {
		return
	}
	ended := cs.ended
	q.waiters.rouseServer()
	q.mu.Unlock()
	<-ended
	q.mu.Lock()
}
