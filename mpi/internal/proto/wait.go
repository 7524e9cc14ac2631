package proto

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/perf"
)

// A goroutine that waits makes progress for all. It spins for a while, then yields the processor between polls, and sleeps if
// nothing happens for long. Of all goroutines that sleep one is parked on the transport's descriptor, and the others on a
// condition variable.

// How long a goroutine spins and yields. A poll takes some 10 ns.
const (
	spinDedicated      = 300 // polls between two yields, if every process has a processor
	spinOversubscribed = 0   // the same, with fewer processors: the process that is waited for has to run
	yieldsBeforeSleep  = 300
	// quickYields is the number of yields of WaitAtLeast, without polling for messages, if processors are oversubscribed.
	quickYields = 2
)

// processYields is the number of yields to other processes for each yield to other goroutines. The latter is expensive: the
// scheduler wakes a thread for the goroutine that yields.
const processYields = 32

// waiters is the state of the goroutines that wait. It is protected by the engine's lock, which is also the condition's.
type waiters struct {
	spin      int // polls between two yields; constant, so it is read without the lock as well
	maxYields int // number of yields in a row before a sleep
	// poll is how long a goroutine polls before it sleeps. If it is not set, maxYields alone decides, without reading a clock.
	poll       *time.Duration
	yields     int // number of yields so far
	yieldTimer pollyield.Timer
	parker     parker
	sleeping   bool // a goroutine is parked on the transport
	parked     int  // number of goroutines parked on cond
	polling    int  // number of goroutines that wait and poll
	watches    []watch
	cond       sync.Cond
}

func (w *waiters) init(lock sync.Locker, oversubscribed bool, poll *time.Duration) {
	w.cond.L, w.poll = lock, poll
	w.spin, w.maxYields = spinDedicated, yieldsBeforeSleep
	if oversubscribed {
		w.spin = spinOversubscribed
	}
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

// mayYield reports whether a goroutine that has yielded so many times in a row may yield once more before it sleeps. since is
// when it began; it is set by the first call.
func (w *waiters) mayYield(yields int, since *time.Time) bool {
	switch {
	case w.poll == nil || w.maxYields == 0:
		return yields < w.maxYields
	case yields == 0:
		*since = time.Now()
		return *w.poll > 0
	}
	return time.Since(*since) < *w.poll
}

// open chooses where goroutines sleep. Arming the domain once shows whether it has a descriptor.
func (w *waiters) open(d fabric.Domain, waker Waker) error {
	fd, _, err := d.Arm()
	if err != nil {
		return fmt.Errorf("arm the transport: %w", err)
	}
	if fd < 0 {
		w.parker = waker.channel
		return nil
	}
	w.parker, err = newPollParker()
	return err
}

// wakeAll wakes all goroutines that sleep, since one of them may have reached its goal.
func (w *waiters) wakeAll() {
	w.cond.Broadcast()
	if w.sleeping {
		w.parker.wake()
	}
}

// wakeNext wakes a goroutine on the condition, which replaces one that does not wait any more.
func (w *waiters) wakeNext() {
	if w.parked != 0 {
		w.cond.Signal()
	}
}

// goal is what a goroutine waits for.
type goal struct {
	what    goalKind
	req     *Request
	gen     uint64 // of req
	handles []Handle
	found   int // index in handles
	word    *uint64
	value   uint64
	// sleepers, in shared memory like word, counts the processes that sleep until some word changes.
	sleepers *uint64
	from     Route
	mapping  *mapping
	since    time.Time // when the goroutine began to wait; zero: not long ago
	watched  bool      // WATCH was sent, see departures
	err      error     // why the goal cannot be reached any more; nil: it may be reached
}

type goalKind uint8

const (
	requestCompleted goalKind = iota // req has completed
	anyCompleted                     // one of handles has completed, or none is active
	wordReached                      // *word has reached value
	messageMatches                   // there is an unexpected message that matches from
	messageOrExit                    // the same, or more than value processes have finalized
	sendsFlushed                     // no message waits to be sent, and no block to be moved
	bufferUnused                     // the attached buffer holds no message
	contextIdle                      // no operation is in progress in the context of from
	segmentMapped                    // mapping is done
)

// reached reports whether the goal has been reached.
func (g *goal) reached(e *Engine) bool {
	switch g.what {
	case requestCompleted:
		return g.req.state != active || g.req.gen != g.gen
	case anyCompleted:
		g.found = firstCompleted(g.handles)
		return g.found != allActive
	case wordReached:
		return int64(atomic.LoadUint64(g.word)-g.value) >= 0
	case messageMatches:
		t := e.contexts.table(g.from.Context)
		return e.contexts.isEnded(t) || !t.Allows(g.from.Rank, g.from.Tag) || t.FindUnexpected(g.from.Rank, g.from.Tag) != nil
	case messageOrExit:
		return uint64(e.failure.finalized) > g.value ||
			e.contexts.table(g.from.Context).FindUnexpected(AnySource, AnyTag) != nil
	case bufferUnused:
		return len(e.attached.blocks) == 0
	case contextIdle:
		return !e.requests.activeIn(g.from.Context)
	case segmentMapped:
		return g.mapping.try()
	}
	return len(e.blocked) == 0 && e.transfers.head == nil
}

// waitRequest blocks until a request has completed, and collects its error. The request may be reused afterwards; its status
// remains until then. If several goroutines wait for the same request, one of them gets it.
func (e *Engine) waitRequest(r *Request, op perf.Op) error {
	gen := r.gen
	if e.waiters.yieldTimer.Due() {
		e.yield()
	}
	for i := 0; r.state == active && r.gen == gen; i++ {
		if e.failure.err != nil {
			return e.failure.err
		}
		if !e.progress() && e.transfers.head == nil && i < e.waiters.spin && !e.mu.contended() {
			continue
		}
		if r.state == active {
			// An operation that has completed by now need not be shown as the current one.
			lane := e.rec.active.Enter(op, r.route.Peer, r.route.Tag, len(r.buf))
			g := goal{what: requestCompleted, req: r, gen: gen}
			e.await(&g)
			e.rec.configured.Leave(lane)
		}
		i = 0
	}
	e.waiters.wakeNext()
	if r.state != done || r.gen != gen {
		return ErrStale
	}
	_, err := e.collect(r)
	return err
}

// await makes progress until the goal is reached, or g.err says why it cannot be, or the engine has failed.
func (e *Engine) await(g *goal) {
	w := &e.waiters
	idle, yields := 0, 0
	since := uint64(0)    // when the first of these yields was made
	var polling time.Time // the same; see mayYield
	w.polling++
	for !g.reached(e) && e.failure.err == nil && !(e.failure.departed && e.isHopeless(g)) {
		switch {
		case w.yieldTimer.Due():
			e.watchIfDue(g)
			e.yield()
		case e.progress():
			idle, yields = 0, 0
			e.rec.waitedSince(&since)
		case e.transfers.head != nil:
			w.polling-- // this goroutine does not poll meanwhile
			e.rec.waitedSince(&since)
			e.runTransfer()
			w.polling++
			idle, yields = 0, 0
		case idle < w.spin && !e.mu.contended():
			idle++
		case w.mayYield(yields, &polling):
			if yields == 0 && since == 0 {
				since = e.rec.active.Now()
			}
			idle = 0
			yields++
			e.yieldToOthers()
		default:
			e.sleep(g)
			idle, yields = 0, 0
		}
	}
	e.rec.waitedSince(&since)
	w.polling--
	w.wakeNext()
}

// waitedSince records the time since then as waiting time, and sets then to 0. It does nothing if then is 0.
func (c *recording) waitedSince(then *uint64) {
	if *then != 0 {
		c.active.Waited(*then)
		*then = 0
	}
}

// yieldToOthers yields the processor to other processes. Now and then, or if another goroutine waits for the lock, it yields to
// other goroutines as well, if there are any.
func (e *Engine) yieldToOthers() {
	e.waiters.yields++
	goroutines := e.mu.contended() || e.waiters.yields%processYields == 0 && runtime.NumGoroutine() > 1
	e.unlock()
	if goroutines {
		runtime.Gosched()
	}
	yieldProcessor()
	e.lock()
}

// yield yields to other goroutines, without the lock, and restarts the yield timer. The caller must check afterwards whatever
// others may have changed.
func (e *Engine) yield() {
	e.waiters.yieldTimer.Reset()
	e.unlock()
	runtime.Gosched()
	e.lock()
}

// sleep sleeps until something happens. The last goroutine that polls parks on the transport, the others on the condition: a
// goroutine that polls wakes the one that is parked on the transport, so two that polled alternately would never sleep.
func (e *Engine) sleep(g *goal) {
	w := &e.waiters
	if g.sleepers != nil {
		// Count this process before the word is read once more: a process that stores the word either finds the count or stores
		// the word before it is read. The partner is the store followed by the load of sleepers; see WaitAtLeast.
		atomic.AddUint64(g.sleepers, 1)
		defer atomic.AddUint64(g.sleepers, ^uint64(0))
	}
	if w.sleeping || w.polling > 1 {
		e.startWatchTimer(e.watchIfDue(g))
		if e.failure.err == nil && !(e.failure.departed && e.isHopeless(g)) {
			e.parkOnCond(g)
		}
		return
	}
	limit := e.watchIfDue(g)
	if e.failure.err != nil || e.failure.departed && (g.reached(e) || e.isHopeless(g)) {
		return // nothing would wake this goroutine, as it did not sleep yet
	}
	fd, ready, err := e.domain.Arm()
	if err != nil {
		e.fail(-1, err)
		return
	}
	// Check again after the transport has been armed: everything that happens from now on wakes this goroutine.
	if ready || g.reached(e) || len(e.blocked) != 0 && e.flushBlocked() {
		e.progress() // disarms: an armed transport leaves its background work to the goroutine that sleeps on it
		return
	}
	e.wakeWatchers() // a word that changes from now on wakes this goroutine; one that changed before is noticed here
	e.rec.transportCounters(e.paths)
	w.sleeping = true
	w.polling--
	e.unlock()
	err = w.parker.park(fd, limit)
	e.lock()
	w.polling++
	w.sleeping = false
	if err != nil {
		e.fail(-1, err)
	}
	e.progress() // disarms, as above
	e.wakeWatchers()
}

// watch is the goal of a goroutine on the condition that waits for something other than a request, so that nothing else wakes
// it. It has the fields of the goal; the goal itself is not stored, so that it need not be allocated.
type watch struct {
	what    goalKind
	word    *uint64
	value   uint64
	from    Route
	mapping *mapping
}

func (x *watch) goal() goal {
	return goal{what: x.what, word: x.word, value: x.value, from: x.from, mapping: x.mapping}
}

// wakeWatchers wakes the goroutines on the condition if one of them has a watch that has been reached.
func (e *Engine) wakeWatchers() {
	for _, x := range e.waiters.watches {
		g := x.goal()
		if g.reached(e) || e.failure.departed && e.isHopeless(&g) {
			e.waiters.cond.Broadcast()
			return
		}
	}
}

// parkOnCond sleeps while another goroutine polls or is parked on the transport.
func (e *Engine) parkOnCond(g *goal) {
	if g.reached(e) {
		return
	}
	w := &e.waiters
	x := watch{g.what, g.word, g.value, g.from, g.mapping}
	watched := g.what != requestCompleted && g.what != anyCompleted
	if watched {
		w.watches = append(w.watches, x)
	}
	w.parked++
	w.polling--
	w.cond.Wait()
	w.polling++
	w.parked--
	if watched {
		i := slices.Index(w.watches, x)
		w.watches = slices.Delete(w.watches, i, i+1)
	}
}

// WaitAtLeast blocks until *w, in memory shared with other processes, has reached v; the comparison allows for wrap-around. It
// makes progress for messages meanwhile. While this process sleeps it is counted in *sleepers: a process that stores w with
// sync/atomic must then load *sleepers, and call WakePeer if that is not 0. Meanwhile the recorder shows watched.Op, of n bytes,
// as the current operation.
//
// WaitAtLeast fails when the process of watched has left its context before *w has reached v. So every process that leaves the
// context must store what others may wait for before it leaves.
func (e *Engine) WaitAtLeast(watched Route, n int, w *uint64, v uint64, sleepers *uint64) error {
	if e.waiters.spin == spinOversubscribed { // the word has usually been reached when the other processes have run
		for range quickYields {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
			yieldProcessor()
		}
	}
	e.lock()
	defer e.unlock()
	if e.waiters.yieldTimer.Due() {
		e.yield()
	}
	defer e.rec.configured.Leave(e.rec.active.Enter(watched.Op, -1, -1, n))
	g := goal{what: wordReached, word: w, value: v, sleepers: sleepers, from: watched}
	e.await(&g)
	if g.reached(e) {
		return nil
	}
	return cmp.Or(e.failure.err, g.err)
}
