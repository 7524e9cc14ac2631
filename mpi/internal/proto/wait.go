package proto

import (
	"runtime"
	"sync/atomic"
)

// How long a waiting goroutine keeps the processor. Polls are some 10 ns each; a round offers the processor to other
// goroutines and to other processes once.
const (
	spinAlone   = 300 // polls between offers, with a processor for every process
	spinCrowded = 20  // and with fewer
	rounds      = 300 // offers before it sleeps
)

// goal is what a goroutine waits for.
type goal struct {
	what  want
	req   *Request
	set   []Handle
	found int // in set
	word  *uint64
	value uint64
	// sleepers, shared like word, counts those who sleep until some word changes.
	sleepers *uint64
	from     Route
}

type want uint8

const (
	finishedOne want = iota // req has completed
	finishedAny             // one of set has completed, or none is active
	wordReached             // *word has reached value
	message                 // a message that fits from is there
	settled                 // nothing is left to be sent
	unlent                  // the attached buffer is not in use
)

// met tells whether the goal has been reached.
func (g *goal) met(e *Engine) bool {
	switch g.what {
	case finishedOne:
		return g.req.state == done
	case finishedAny:
		g.found = firstDone(g.set)
		return g.found != none
	case wordReached:
		return int64(atomic.LoadUint64(g.word)-g.value) >= 0
	case message:
		return e.table(g.from.Context).Find(g.from.Rank, g.from.Tag) != nil
	case unlent:
		return len(e.loans.out) == 0
	}
	return len(e.backlog) == 0 && e.moves.head == nil
}

// wait waits for a request, and collects its error. The request may be used again afterwards; its status stays until then.
func (e *Engine) wait(r *Request) error {
	for i := 0; r.state != done; i++ {
		if e.broken != nil {
			return e.broken
		}
		if !e.progress() && e.moves.head == nil && i < e.spin && e.want.Load() == 0 {
			continue
		}
		if r.state != done {
			g := goal{what: finishedOne, req: r}
			e.await(&g)
		}
		i = 0
	}
	e.handOver()
	_, err := e.collect(r)
	return err
}

// await makes progress until the goal is met or the engine is broken.
func (e *Engine) await(g *goal) {
	idle, round := 0, 0
	for !g.met(e) && e.broken == nil {
		switch {
		case e.progress():
			idle, round = 0, 0
		case e.moves.head != nil:
			e.work()
			idle, round = 0, 0
		case idle < e.spin && e.want.Load() == 0:
			idle++
		case round < rounds:
			idle = 0
			round++
			e.unlock()
			runtime.Gosched()
			yieldProcessor()
			e.lock()
		default:
			e.sleep(g)
			idle, round = 0, 0
		}
	}
	e.handOver()
}

// handOver lets one of those on the condition take the place of a goroutine that no longer waits.
func (e *Engine) handOver() {
	if e.parked != 0 {
		e.cond.Signal()
	}
}

// unpark wakes everybody, since one of them may have what it waits for.
func (e *Engine) unpark() {
	e.cond.Broadcast()
	if e.sleeping {
		e.parker.kick()
	}
}

// sleep sleeps until something happens. One goroutine sleeps on the transport, the others on the condition.
func (e *Engine) sleep(g *goal) {
	if e.sleeping {
		e.parked++
		e.cond.Wait()
		e.parked--
		return
	}
	if g.sleepers != nil {
		// Before the word is looked at once more, so that whoever stores it either sees us or is seen.
		atomic.AddUint64(g.sleepers, 1)
		defer atomic.AddUint64(g.sleepers, ^uint64(0))
	}
	fd, ready, err := e.domain.Arm()
	if err != nil {
		e.fail(-1, err)
		return
	}
	// Armed first and looked again after: whatever comes from now on wakes us.
	if ready || g.met(e) || len(e.backlog) != 0 && e.flush() {
		return
	}
	e.sleeping = true
	e.unlock()
	err = e.parker.park(fd)
	e.lock()
	e.sleeping = false
	if err != nil {
		e.fail(-1, err)
	}
}

// WaitAtLeast waits until *w, in memory shared with other processes, has reached v, counting round. It makes progress
// for messages meanwhile. While it sleeps it is counted in *sleepers: whoever stores w with sync/atomic and then finds
// sleepers has to Ring.
func (e *Engine) WaitAtLeast(w *uint64, v uint64, sleepers *uint64) error {
	e.lock()
	defer e.unlock()
	g := goal{what: wordReached, word: w, value: v, sleepers: sleepers}
	e.await(&g)
	if g.met(e) {
		return nil
	}
	return e.broken
}

// none is what firstDone says while all are under way.
const none = -2

// firstDone returns the index of a completed or stale request among hs, none if all are under way, and -1 if there is
// nothing to wait for.
func firstDone(hs []Handle) int {
	found := -1
	for i, h := range hs {
		switch {
		case h.r == nil:
		case !h.valid() || h.r.state == done:
			return i
		case h.r.state == active:
			found = none
		}
	}
	return found
}
