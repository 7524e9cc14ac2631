package proto

import (
	"iter"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// When all processes free a communicator, messages that were sent before may still be on their way
// to receives that were posted before. Both must complete. The exchange in which the processes
// agree does not order these messages: it may take another way.
//
// A process with posted receives therefore sends Flush to those that may have sent a message for
// them. They answer with Flushed, which follows all that they have sent. When the answers have
// arrived, a receive that is still posted has no message. A receive from AnySource makes the
// process connect to all others of the communicator, since each may be about to connect to it.

// flush is a wait for Flushed.
type flush struct {
	id   uint64
	from []int32 // the processes that have not answered
}

// flushes are those in progress. Several communicators may be freed at the same time.
type flushes struct {
	links *links
	list  []*flush
	last  uint64 // id of the last one
}

// begin sends Flush to the processes that it may be sent to.
func (f *flushes) begin(to []bool) *flush {
	f.last++
	x := &flush{id: f.last}
	f.list = append(f.list, x)
	for n, may := range to {
		// If connect fails, nothing comes from there, or the engine has failed.
		if may && f.links.connect(int32(n)) == nil {
			x.from = append(x.from, int32(n))
			f.links.sendControl(int32(n), wire.Envelope{Kind: wire.Flush}, x.id)
		}
	}
	return x
}

// end ends the wait for a flush.
func (f *flushes) end(x *flush) {
	f.list = slices.DeleteFunc(f.list, func(y *flush) bool { return y == x })
}

// find returns the flush with an id, or nil.
func (f *flushes) find(id uint64) *flush {
	for _, x := range f.list {
		if x.id == id {
			return x
		}
	}
	return nil
}

// isOver reports whether all processes have answered, except those that have finalized.
func (f *flushes) isOver(id uint64) bool {
	x := f.find(id)
	return x == nil || !slices.ContainsFunc(x.from, func(n int32) bool { return !f.links.hasFinalized(n) })
}

// handleFlushed handles Flushed. It returns false for an answer that was not expected.
func (f *flushes) handleFlushed(peer int32, w [5]uint64) bool {
	x := f.find(w[0])
	if x == nil {
		return f.links.failure.err != nil // it may have ended the wait
	}
	i := slices.Index(x.from, peer)
	if i < 0 {
		return false
	}
	x.from = slices.Delete(x.from, i, i+1)
	return true
}

// PrepareFlush must be called before the processes agree to free a communicator. It sends the
// partitions that are ready, and reports whether receives are posted in the context messages, or
// partitioned receives are active in the context partitioned.
func (e *Engine) PrepareFlush(messages, partitioned uint32) bool {
	e.lock()
	defer e.unlock()
	posted, _ := e.contexts.table(messages).Lengths()
	if posted == 0 && e.waiters.background.schedules == 0 {
		return false
	}
	e.advancePartitioned(partitioned)
	for range e.requests.routesToFlush(messages, partitioned) {
		return true
	}
	return false
}

// routesToFlush returns the routes of the receives of PrepareFlush.
func (q *Requests) routesToFlush(messages, partitioned uint32) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		for _, slab := range q.slabs {
			for i := range slab {
				r := &slab[i]
				p := r.activePartitioned()
				switch {
				case r.state != active:
				case r.route.Context == messages && !r.send && r.posted.Posted():
					if !yield(r.route) {
						return
					}
				case r.route.Context == partitioned && p != nil && !p.send && p.on.Peer >= 0:
					if !yield(p.on) {
						return
					}
				}
			}
		}
	}
}

// senders returns for each process whether messages for the receives of PrepareFlush may come from
// it.
func (f *flushes) senders(q *Requests, d *departures, messages, partitioned uint32) []bool {
	from, anySource := make([]bool, len(f.links.peers)), false
	for on := range q.routesToFlush(messages, partitioned) {
		if on.Rank == AnySource {
			anySource = true
		} else {
			from[on.Peer] = true
		}
	}
	if anySource {
		for _, n := range d.members(messages) {
			from[n] = true
		}
	}
	return from
}

// activePartitioned returns the program of r if r is an active partitioned request, or nil.
func (r *Request) activePartitioned() *partitioned {
	if r.state != active || r.schedule == nil || r.schedule.req != r {
		return nil
	}
	p, _ := r.schedule.program.(*partitioned)
	return p
}

// Flush blocks until the receives of PrepareFlush have been matched with all messages that other
// processes had sent when they were asked. Meanwhile the recorder shows op as the current
// operation. The other processes answer when they make progress.
func (e *Engine) Flush(op perf.Op, messages, partitioned uint32) error {
	e.lock()
	defer e.unlock()
	f := e.flushes.begin(e.flushes.senders(&e.requests, &e.departures, messages, partitioned))
	defer e.rec.Configured.Leave(e.rec.Enter(op, messages, -1, -1, 0))
	g := goal{watch: watch{what: flushed, value: f.id}}
	e.waiters.await(&g)
	e.flushes.end(f)
	if len(f.from) != 0 && e.failure.err != nil {
		return e.failure.err
	}
	e.advancePartitioned(partitioned)
	return nil
}

// advancePartitioned does the steps of the partitioned requests of a context that can be done.
func (e *Engine) advancePartitioned(context uint32) {
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if p := r.activePartitioned(); p != nil && r.route.Context == context && r.transfer.queued {
				e.transfers.remove(&r.transfer)
				r.transfer.state = transferNone
				e.schedules.advance(&p.schedule, false)
			}
		}
	}
}
