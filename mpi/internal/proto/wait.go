package proto

import (
	"cmp"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/parker"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/processor"
	"github.com/ibrun/ibrun/perf"
)

// Of all goroutines that wait, one polls, and makes progress for all. It spins for a while, then yields the processor between
// polls, and sleeps on the transport's descriptor if nothing happens for long. The others are parked, each until its own goal may
// have been reached; see park.go. So goroutines do not queue at the engine's lock, and a message wakes only its receiver.
//
// The goroutine that polls yields to those that it has woken before it polls again. Usually they send the next messages, which
// then leave together; see combine.go.

// How long a goroutine spins and yields. A poll takes some 10 ns.
const (
	spinDedicated      = 300 // polls between two yields, if every process has a processor
	spinOversubscribed = 0   // the same, with fewer processors: the process that is waited for has to run
	yieldsBeforeSleep  = 300
	yieldsInVain       = 16 // a goroutine that was woken in vain makes a sixteenth of these
	// quickYields is the number of yields of WaitAtLeast, without polling for messages, if processors are oversubscribed.
	quickYields = 2
)

// processYields is the number of yields to other processes for each yield to other goroutines. The latter is expensive: the
// scheduler wakes a thread for the goroutine that yields.
const processYields = 32

// maxYieldsToWoken is the number of yields in a row to goroutines that have been woken. One of them may not run for long, if its
// processor is in use.
const maxYieldsToWoken = 4

// waiters is the state of the goroutines that wait. It is protected by the engine's lock.
type waiters struct {
	spin      int // polls between two yields; constant, so it is read without the lock as well
	maxYields int // number of yields in a row before a sleep
	// poll is how long a goroutine polls before it sleeps. If it is not set, maxYields alone decides, without reading a clock.
	poll       *time.Duration
	takeOver   int  // takeOverYields; tests change it
	yields     int  // number of yields so far
	tests      uint // number of polls of calls that do not wait
	yieldTimer pollyield.Timer
	processors *processor.Yielder // not protected by the lock

	oneProcessor bool // no other goroutine runs while one polls
	inProcess    bool // the peers are goroutines of this process
	goroutines   int  // the number of goroutines of the program when it was last read
	newcomers    bool // since then goroutines were started, which may not have run yet

	polling bool // a goroutine polls, or has yielded between two polls
	// inBackground says that it is the one of the background; valid with polling.
	inBackground bool
	woken        int // number of goroutines that have been woken after they were parked, and have not run yet

	parker   parker.Parker
	sleeping bool       // a goroutine sleeps on the transport
	roused   bool       // and parker.Wake was called
	inVain   bool       // the goroutine that polls was woken on the transport, but nothing had happened
	parked   parkedList // the other goroutines that sleep
	watchers []*sleeper // those of all these whose goal is not the end of one request
	general  int        // the number of watchers whose goal the end of any request may reach
	words    int        // the number of watchers that wait for a word, which changes without an event
	free     *sleeper   // free list
}

func (w *waiters) init(oversubscribed bool, poll *time.Duration) {
	w.poll = poll
	w.spin, w.maxYields, w.takeOver = spinDedicated, yieldsBeforeSleep, takeOverYields
	if oversubscribed {
		w.spin = spinOversubscribed
	}
	w.oneProcessor = runtime.GOMAXPROCS(0) == 1
	w.processors = processor.Shared()
}

// pollsBeforeCount is the number of polls in vain after which a goroutine looks for others that were started.
const pollsBeforeCount = 4

// hasNewcomers reports whether goroutines were started that the polling one keeps from running. The caller then begins to wait as
// if others had been woken.
func (w *waiters) hasNewcomers() bool {
	if !w.oneProcessor {
		return false
	}
	n := runtime.NumGoroutine()
	w.newcomers = n > w.goroutines
	w.goroutines = n
	return w.newcomers
}

// busy reports whether a goroutine that begins to wait must not poll at once: another one polls, or others have been woken or
// started, and run first.
func (w *waiters) busy() bool { return w.polling || w.newcomers || w.woken != 0 }

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
		return yields < w.maxYields && !w.paused()
	case yields == 0:
		*since = time.Now()
		return *w.poll > 0
	}
	return time.Since(*since) < *w.poll
}

// yieldsAfterSleep returns how many yields in a row a goroutine counts as made when it has slept. One that was woken in vain soon
// sleeps again: it was woken because the transport had to look at its deadlines, or has received a part of a message. A word of
// shared memory that has changed is different: the other processes that change it mostly follow at once.
func (w *waiters) yieldsAfterSleep(g *goal) int {
	if !w.inVain || w.poll != nil || g.what == wordReached {
		return 0
	}
	return w.maxYields - w.maxYields/yieldsInVain
}

// open chooses where goroutines sleep. Arming the domain once shows whether it has a descriptor.
func (w *waiters) open(d fabric.Domain, waker Waker) error {
	fd, _, err := d.Arm()
	if err != nil {
		return fmt.Errorf("arm the transport: %w", err)
	}
	if fd < 0 { // only peers of this process can wake it without one
		w.parker, w.inProcess = waker.channel, true
		return nil
	}
	w.parker, err = parker.New()
	return err
}

// goal is what a goroutine waits for.
type goal struct {
	what  goalKind
	req   *Request
	gen   uint64 // of req
	any   anyWait
	found int // index in any.hs
	word  *uint64
	value uint64
	// sleepers, in shared memory like word, counts the processes that sleep until some word changes.
	sleepers *uint64
	from     Route
	mapping  *mapping
	since    time.Time // when the goroutine began to wait; zero: not long ago
	watched  bool      // WATCH was sent, see departures
	err      error     // why the goal cannot be reached any more; nil: it may be reached
	stop     *stopper  // ends the wait early; nil: nothing does
}

type goalKind uint8

const (
	requestCompleted    goalKind = iota // req has completed
	anyCompleted                        // one handle of any has completed, or none is active
	wordReached                         // *word has reached value
	messageMatches                      // there is an unexpected message that matches from
	messageOrExit                       // the same, or more than value processes have finalized
	sendsFlushed                        // no message waits to be sent, and no block to be moved
	bufferUnused                        // the attached buffer holds no message
	contextIdle                         // no operation is in progress in the context of from, except partitioned ones
	partitionedIdle                     // no partitioned operation is in progress there
	flushed                             // the processes of the flush with the number value have answered
	segmentMapped                       // mapping is done
	channelsClosed                      // no request has an open channel, or none may have one any more
	backgroundNotNeeded                 // no schedule is in progress, or a call waits
)

// reached reports whether the goal has been reached.
func (g *goal) reached(e *Engine) bool {
	switch g.what {
	case requestCompleted:
		return g.req.state != active || g.req.gen != g.gen
	case anyCompleted:
		g.found = g.any.find()
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
		return e.attached.Unused()
	case contextIdle, partitionedIdle:
		return !e.requests.activeIn(g.from.Context, g.what == partitionedIdle)
	case flushed:
		return e.flushIsOver(g.value)
	case segmentMapped:
		return g.mapping.try()
	case channelsClosed:
		return len(e.channels.open) == 0 || e.channels.stop
	case backgroundNotNeeded:
		return e.background.schedules == 0 || e.background.leave || e.background.stop
	}
	return len(e.links.blocked) == 0 && e.transfers.head == nil
}

// waitRequest blocks until a request has completed, and collects its error. The request may be reused afterwards; its status
// remains until then. If several goroutines wait for the same request, one of them gets it.
func (e *Engine) waitRequest(r *Request, op perf.Op) error {
	gen := r.gen
	if e.waiters.yieldTimer.Due() && !e.waiters.busy() {
		e.yield()
	}
	for i := 0; r.state == active && r.gen == gen; i++ {
		if e.failure.err != nil {
			return r.operationError(e.failure.err)
		}
		if !e.waiters.busy() && !e.progress() && e.transfers.head == nil && i < e.waiters.spin && !e.mu.Contended() &&
			(i != pollsBeforeCount || !e.waiters.hasNewcomers()) {
			continue
		}
		if r.state == active {
			// An operation that has completed by now need not be shown as the current one.
			shown, peer, tag := r.shownAs(op)
			lane := e.rec.Enter(shown, r.route.Context, peer, tag, r.size())
			g := goal{what: requestCompleted, req: r, gen: gen}
			e.await(&g)
			e.rec.Configured.Leave(lane)
		}
		i = 0
	}
	if r.state != done || r.gen != gen {
		return ErrStale
	}
	_, err := e.collect(r)
	return err
}

// await blocks until the goal is reached, or g.err says why it cannot be, or g.stop is set, or the engine has failed. It makes
// progress unless another goroutine does.
func (e *Engine) await(g *goal) {
	for !e.isOver(g) {
		if g.any.looking() && e.waiters.polling {
			continue
		}
		switch {
		case !e.waiters.polling:
			e.pollFor(g)
		case !e.takeOverPolling():
			e.park(g)
		}
	}
	e.waiters.passOn()
	if e.background.schedules != 0 {
		e.startBackground()
	}
}

// isOver reports whether the wait for a goal has ended.
func (e *Engine) isOver(g *goal) bool {
	return g.reached(e) || e.failure.err != nil || g.stop.isSet() || e.failure.departed && e.isHopeless(g)
}

// pollFor polls until the wait for the goal has ended, or another goroutine polls.
func (e *Engine) pollFor(g *goal) {
	w := &e.waiters
	idle, yields, yieldsToWoken := 0, 0, 0
	since := uint64(0)    // when the first of these yields was made
	var polling time.Time // the same; see mayYield
	for w.startPolling(g); !e.isOver(g); {
		switch {
		case w.newcomers:
			w.newcomers = false
			e.yieldToGoroutines()
		case w.woken != 0 && yieldsToWoken < maxYieldsToWoken:
			yieldsToWoken++
			e.yieldToGoroutines()
		case w.yieldTimer.Due():
			e.watchIfDue(g)
			e.yield()
		case e.progress():
			idle, yields, yieldsToWoken = 0, 0, 0
			e.rec.WaitedSince(&since)
		case e.transfers.head != nil:
			e.rec.WaitedSince(&since)
			if !e.transferWhilePolling(g) {
				return
			}
			idle, yields = 0, 0
		case idle < w.spin && !e.mu.Contended():
			if idle++; idle == pollsBeforeCount {
				w.hasNewcomers()
			}
		case w.mayYield(yields, &polling) || g.any.looking():
			if yields == 0 && since == 0 && g.what != channelsClosed && g.what != backgroundNotNeeded { // else the program may compute
				since = e.rec.Active.Now()
			}
			idle, yieldsToWoken = 0, 0
			yields++
			e.yieldToOthers()
		default:
			if !e.sleep(g) {
				e.rec.WaitedSince(&since)
				return
			}
			idle, yields, yieldsToWoken = 0, w.yieldsAfterSleep(g), 0
		}
	}
	e.rec.WaitedSince(&since)
	w.polling = false
}

// transferWhilePolling moves a block in the goroutine that polls. Meanwhile another one may poll: then it returns false.
func (e *Engine) transferWhilePolling(g *goal) bool {
	w := &e.waiters
	w.polling = false
	e.waiters.passOn()
	e.runTransfer()
	if w.polling {
		return false
	}
	w.startPolling(g)
	return true
}

// startPolling must be called when the goroutine with the goal g begins to poll.
func (w *waiters) startPolling(g *goal) {
	w.polling, w.inBackground = true, g.what == backgroundNotNeeded
}

// yieldToOthers yields the processor to the peers. If these are other processes, it yields to other goroutines now and then, and
// whenever one waits for the lock.
func (e *Engine) yieldToOthers() {
	w := &e.waiters
	w.yields++
	goroutines := !w.inProcess && (e.mu.Contended() || w.oneProcessor || w.yields%processYields == 0 && runtime.NumGoroutine() > 1)
	e.unlock()
	if goroutines {
		runtime.Gosched()
	}
	w.yieldToPeers()
	e.lock()
}

// yieldToPeers yields the processor to the peers. A goroutine that yields to other processes keeps peers that are goroutines from
// running. The caller must not hold the engine's lock.
func (w *waiters) yieldToPeers() {
	if w.inProcess {
		runtime.Gosched()
		return
	}
	w.processors.Yield()
}

// paused reports whether a goroutine should sleep in place of yielding to other processes.
func (w *waiters) paused() bool { return !w.inProcess && w.processors.Paused() }

// yieldToGoroutines yields to other goroutines of this process.
func (e *Engine) yieldToGoroutines() {
	e.unlock()
	runtime.Gosched()
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

// WaitAtLeast blocks until *w, in memory shared with other processes, has reached v; the comparison allows for wrap-around. It
// makes progress for messages meanwhile. While this process sleeps it is counted in *sleepers: a process that stores w must then
// load *sleepers, with a fence between the two if NeedsFence of the segment says so, and call WakePeer if that is not 0.
// Meanwhile the recorder shows watched.Op, of n bytes, as the current operation.
//
// WaitAtLeast fails when the process of watched has left its context before *w has reached v. So every process that leaves the
// context must store what others may wait for before it leaves.
func (e *Engine) WaitAtLeast(watched Route, n int, w *uint64, v uint64, sleepers *uint64) error {
	// The word has usually been reached when the other processes have run.
	if e.waiters.spin == spinOversubscribed && !e.waiters.paused() {
		for range quickYields {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
			e.waiters.yieldToPeers()
		}
	}
	e.lock()
	defer e.unlock()
	if e.waiters.yieldTimer.Due() && !e.waiters.busy() {
		e.yield()
	}
	defer e.rec.Configured.Leave(e.rec.Enter(watched.Op, watched.Context, -1, -1, n))
	g := goal{what: wordReached, word: w, value: v, sleepers: sleepers, from: watched}
	e.await(&g)
	if g.reached(e) {
		return nil
	}
	return cmp.Or(e.failure.err, g.err)
}
