package proto

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/perf"
)

// How long a waiting goroutine keeps the processor. Polls are some 10 ns each; a round offers the processor to other
// goroutines and to other processes once.
const (
	spinAlone   = 300 // polls between offers, with a processor for every process
	spinCrowded = 0   // and with fewer: whoever is waited for has to run
	rounds      = 300 // offers before it sleeps
	quickOffers = 2   // offers for a word, where processes are crowded, before messages are looked for as well
)

// goal is what a goroutine waits for.
type goal struct {
	what  want
	req   *Request
	gen   uint64 // of req
	set   []Handle
	found int // in set
	word  *uint64
	value uint64
	// sleepers, shared like word, counts those who sleep until some word changes.
	sleepers *uint64
	from     Route
	mapping  *mapping
}

type want uint8

const (
	finishedOne want = iota // req has completed
	finishedAny             // one of set has completed, or none is active
	wordReached             // *word has reached value
	message                 // a message that fits from is there
	mail                    // so, or more than value processes have left
	settled                 // nothing is left to be sent
	unlent                  // the attached buffer is not in use
	quiet                   // nothing is under way in the context of from
	mapped                  // mapping has come to an end
)

// met tells whether the goal has been reached.
func (g *goal) met(e *Engine) bool {
	switch g.what {
	case finishedOne:
		return g.req.state != active || g.req.gen != g.gen
	case finishedAny:
		g.found = firstDone(g.set)
		return g.found != none
	case wordReached:
		return int64(atomic.LoadUint64(g.word)-g.value) >= 0
	case message:
		t := e.table(g.from.Context)
		return t == &e.dead || !t.Allows(g.from.Rank, g.from.Tag) || t.FindUnexpected(g.from.Rank, g.from.Tag) != nil
	case mail:
		return uint64(e.lefts) > g.value || e.table(g.from.Context).FindUnexpected(AnySource, AnyTag) != nil
	case unlent:
		return len(e.loans.out) == 0
	case quiet:
		return e.isQuiet(g.from.Context)
	case mapped:
		return g.mapping.tried()
	}
	return len(e.backlog) == 0 && e.moves.head == nil
}

// wait waits for a request, and collects its error. The request may be used again afterwards; its status stays
// until then. Where several goroutines wait for the same request, one of them gets it.
func (e *Engine) wait(r *Request, op perf.Op) error {
	gen := r.gen
	if e.breath.Due() {
		e.breathe()
	}
	for i := 0; r.state == active && r.gen == gen; i++ {
		if e.broken != nil {
			return e.broken
		}
		if !e.progress() && e.moves.head == nil && i < e.spin && !e.mu.wanted() {
			continue
		}
		if r.state == active {
			// What is over by now needs not be shown.
			lane := e.rec.Enter(op, r.route.Peer, r.route.Tag, len(r.buf))
			g := goal{what: finishedOne, req: r, gen: gen}
			e.await(&g)
			e.book.Leave(lane)
		}
		i = 0
	}
	e.handOver()
	if r.state != done || r.gen != gen {
		return ErrStale
	}
	_, err := e.collect(r)
	return err
}

// await makes progress until the goal is met or the engine is broken.
func (e *Engine) await(g *goal) {
	idle, round := 0, 0
	since := uint64(0) // when the first offer in a row was made
	e.awake++
	for !g.met(e) && e.broken == nil {
		switch {
		case e.breath.Due():
			e.breathe()
		case e.progress():
			idle, round = 0, 0
			e.waitedSince(&since)
		case e.moves.head != nil:
			e.awake-- // it does not poll meanwhile
			e.waitedSince(&since)
			e.work()
			e.awake++
			idle, round = 0, 0
		case idle < e.spin && !e.mu.wanted():
			idle++
		case round < rounds:
			if round == 0 && since == 0 {
				since = e.rec.Now()
			}
			idle = 0
			round++
			e.stepAside()
		default:
			e.sleep(g)
			idle, round = 0, 0
		}
	}
	e.waitedSince(&since)
	e.awake--
	e.handOver()
}

// waitedSince records that nothing happened since then, if anything did not.
func (e *Engine) waitedSince(then *uint64) {
	if *then != 0 {
		e.rec.Waited(*then)
		*then = 0
	}
}

// gentle is how many offers to other processes there are for one to other goroutines of this process. That one is
// dear: the scheduler wakes a thread to see to the goroutine that steps aside.
const gentle = 32

// stepAside lets others have the processor: other processes, and now and then, or when one waits for the lock, other
// goroutines, if there are any.
func (e *Engine) stepAside() {
	e.offers++
	others := e.mu.wanted() || e.offers%gentle == 0 && runtime.NumGoroutine() > 1
	e.unlock()
	if others {
		runtime.Gosched()
	}
	yieldProcessor()
	e.lock()
}

// breathe steps aside, and lets the lock go meanwhile. Those who wait call it, before they look at what others may change.
func (e *Engine) breathe() {
	e.breath.Reset()
	e.unlock()
	runtime.Gosched()
	e.lock()
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

// sleep sleeps until something happens. The last that is awake sleeps on the transport, the others on the
// condition: who polls wakes who sleeps on the transport, so two that take turns would never rest.
func (e *Engine) sleep(g *goal) {
	if g.sleepers != nil {
		// Before the word is looked at once more, so that whoever stores it either sees us or is seen.
		atomic.AddUint64(g.sleepers, 1)
		defer atomic.AddUint64(g.sleepers, ^uint64(0))
	}
	if e.sleeping || e.awake > 1 {
		e.parkOnCond(g)
		return
	}
	fd, ready, err := e.domain.Arm()
	if err != nil {
		e.fail(-1, err)
		return
	}
	// Armed first and looked again after: whatever comes from now on wakes us.
	if ready || g.met(e) || len(e.backlog) != 0 && e.flush() {
		e.progress() // a transport that stays armed leaves all it does beside the program to who sleeps on it
		return
	}
	e.stir() // armed: a word that changes from now on wakes us, and one that changed before is seen here
	e.tally()
	e.sleeping = true
	e.awake--
	e.unlock()
	err = e.parker.park(fd)
	e.lock()
	e.awake++
	e.sleeping = false
	if err != nil {
		e.fail(-1, err)
	}
	e.progress() // likewise
	e.stir()
}

// watch is what a goroutine on the condition waits for if it is not a request: nobody would tell it when it is
// there. The fields are those of a goal, which is not kept itself, so that it need not be allocated.
type watch struct {
	what    want
	word    *uint64
	value   uint64
	from    Route
	mapping *mapping
}

// stir wakes those on the condition if one of them watches for something that is there.
func (e *Engine) stir() {
	for _, w := range e.watches {
		g := goal{what: w.what, word: w.word, value: w.value, from: w.from, mapping: w.mapping}
		if g.met(e) {
			e.cond.Broadcast()
			return
		}
	}
}

// parkOnCond sleeps while another goroutine polls or sleeps on the transport.
func (e *Engine) parkOnCond(g *goal) {
	if g.met(e) {
		return
	}
	w := watch{g.what, g.word, g.value, g.from, g.mapping}
	watches := g.what != finishedOne && g.what != finishedAny
	if watches {
		e.watches = append(e.watches, w)
	}
	e.parked++
	e.awake--
	e.cond.Wait()
	e.awake++
	e.parked--
	if watches {
		i := slices.Index(e.watches, w)
		e.watches = slices.Delete(e.watches, i, i+1)
	}
}

// WaitAtLeast waits until *w, in memory shared with other processes, has reached v, counting round. It makes progress
// for messages meanwhile. While it sleeps it is counted in *sleepers: whoever stores w with sync/atomic and then finds
// sleepers has to Ring. The operation op of n bytes, which it is a part of, is shown meanwhile.
func (e *Engine) WaitAtLeast(op perf.Op, n int, w *uint64, v uint64, sleepers *uint64) error {
	if e.spin == spinCrowded { // mostly it has been reached once the others of this processor have run
		for range quickOffers {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
			yieldProcessor()
		}
	}
	e.lock()
	defer e.unlock()
	if e.breath.Due() {
		e.breathe()
	}
	defer e.book.Leave(e.rec.Enter(op, -1, -1, n))
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
