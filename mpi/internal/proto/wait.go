package proto

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/parker"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/processor"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
)

// Of all goroutines that wait, one polls, and makes progress for all. It spins for a while, then
// yields the processor between polls, and sleeps on the transport's descriptor if nothing happens
// for long. The others are parked, each until its own goal may have been reached; see sleepers.go.
// So goroutines do not queue at the engine's lock, and a message wakes only its receiver.
//
// The goroutine that polls yields to those that it has woken before it polls again. Usually they
// send the next messages, which then leave together; see combine.go.

// How long a goroutine spins and yields. A poll takes some 10 ns.
const (
	spinDedicated      = 300 // polls between two yields, if every process has a processor
	spinOversubscribed = 0   // with fewer processors: the process that is waited for needs them
	yieldsBeforeSleep  = 300
	yieldsInVain       = 16 // a goroutine that was woken in vain makes a sixteenth of these
	// quickYields is the number of yields of WaitAtLeast, without polling for messages, if
	// processors are oversubscribed.
	quickYields = 2
)

// processYields is the number of yields to other processes for each yield to other goroutines. The
// latter is expensive: the scheduler wakes a thread for the goroutine that yields.
const processYields = 32

// maxYieldsToWoken is the number of yields in a row to goroutines that have been woken. One of them
// may not run for long, if its processor is in use.
const maxYieldsToWoken = 4

// waiters is the state of the goroutines that wait. It knows requests and what these goroutines
// wait for, but no messages: for the rest it calls actions. It is protected by the engine's lock,
// which is mu.
type waiters struct {
	mu        *lock.Mutex
	failure   *failures         // of the engine; it is only read here
	rec       *record.Recording // of the engine
	transfers *transferQueue    // of the engine; here it is only asked whether it is empty
	do        actions
	spin      int // polls between two yields; constant, so it is read without the lock as well
	maxYields int // number of yields in a row before a sleep
	// poll is how long a goroutine polls before it sleeps. If it is not set, maxYields alone
	// decides, without reading a clock.
	poll       *time.Duration
	takeOver   int  // takeOverYields; tests change it
	yields     int  // number of yields so far
	tests      uint // number of polls of calls that do not wait
	yieldTimer pollyield.Timer
	processors *processor.Yielder // not protected by the lock

	oneProcessor bool // no other goroutine runs while one polls
	inProcess    bool // the peers are goroutines of this process; constant: read without the lock
	goroutines   int  // the number of goroutines of the program when it was last read
	newcomers    bool // since then goroutines were started, which may not have run yet

	polling bool // a goroutine polls, or has yielded between two polls
	// inBackground says that it is the one of the background; valid with polling.
	inBackground bool
	woken        int // number of parked goroutines that have been woken and have not run yet

	parker   parker.Parker
	sleeping bool       // a goroutine sleeps on the transport
	roused   bool       // and parker.Wake was called
	inVain   bool       // the goroutine that polls was woken on the transport in vain
	parked   parkedList // the other goroutines that sleep
	watchers []*sleeper // those of all these whose goal is not the end of one request
	general  int        // the number of watchers whose goal the end of any request may reach
	words    int        // number of watchers that wait for a word, which changes without an event
	free     *sleeper   // free list

	background background
}

// actions are functions of the rest of the engine that goroutines call while they wait, with its
// lock held. Goals are passed by value: one that is passed by its address to a function value would
// be allocated for each wait.
type actions struct {
	progress func() bool // polls the transport once and reports whether anything happened
	transfer func()      // moves a block of the queue, which is not empty, without the lock
	// flush hands over to the transport what was kept for other messages to join.
	flush func()
	// arm arms the transport before a sleep. ready says that there is something to do instead.
	// Otherwise disarmed must be called after the sleep.
	arm      func() (fd int, ready bool, err error)
	disarmed func()
	// beforeSleep records what is only recorded now and then.
	beforeSleep func()
	fail        func(n int32, err error) // is links.fail
	// reached reports whether a goal has been reached that waiters.reached does not know.
	reached func(watch) bool
	// hopeless returns the error of a wait for a message of a process that has left; nil: the
	// message may come.
	hopeless func(from Route) error
	// watchIfDue asks the processes that are waited for whether they have left, if the wait has
	// been long enough. It returns how long it still has to be; 0: they have been asked.
	watchIfDue func(watch, longWait) (longWait, time.Duration)
	// startWatchTimer does the same for all that wait, later.
	startWatchTimer func(left time.Duration)
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

// pollsBeforeCount is the number of polls in vain after which a goroutine looks for others that
// were started.
const pollsBeforeCount = 4

// hasNewcomers reports whether goroutines were started that the polling one keeps from running. The
// caller then begins to wait as if others had been woken.
func (w *waiters) hasNewcomers() bool {
	if !w.oneProcessor {
		return false
	}
	n := runtime.NumGoroutine()
	w.newcomers = n > w.goroutines
	w.goroutines = n
	return w.newcomers
}

// busy reports whether a goroutine that begins to wait must not poll at once: another one polls, or
// others have been woken or started, and run first.
func (w *waiters) busy() bool { return w.polling || w.newcomers || w.woken != 0 }

// mayYield reports whether a goroutine that has yielded so many times in a row may yield once more
// before it sleeps. since is when it began; it is set by the first call.
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

// yieldsAfterSleep returns how many yields in a row a goroutine counts as made when it has slept.
// One that was woken in vain soon sleeps again: it was woken because the transport had to look at
// its deadlines, or has received a part of a message. A word of shared memory that has changed is
// different: the other processes that change it mostly follow at once.
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

// await blocks until the goal is reached, or g.err says why it cannot be, or g.stop is set, or the
// engine has failed. It makes progress unless another goroutine does.
func (w *waiters) await(g *goal) {
	for !w.isOver(g) {
		if g.any.looking() && w.polling {
			continue
		}
		switch {
		case !w.polling:
			w.pollFor(g)
		case !w.takeOverPolling():
			w.park(g)
		}
	}
	w.passOn()
	if w.background.schedules != 0 {
		w.startBackground()
	}
}

// pollFor polls until the wait for the goal has ended, or another goroutine polls.
func (w *waiters) pollFor(g *goal) {
	idle, yields, yieldsToWoken := 0, 0, 0
	since := uint64(0)    // when the first of these yields was made
	var polling time.Time // the same; see mayYield
	for w.startPolling(g); !w.isOver(g); {
		switch {
		case w.newcomers:
			w.newcomers = false
			w.yieldToGoroutines()
		case w.woken != 0 && yieldsToWoken < maxYieldsToWoken:
			yieldsToWoken++
			w.yieldToGoroutines()
		case w.yieldTimer.Due():
			w.watchIfDue(g)
			w.yield()
		case w.do.progress():
			idle, yields, yieldsToWoken = 0, 0, 0
			w.rec.WaitedSince(&since)
		case w.transfers.head != nil:
			w.rec.WaitedSince(&since)
			if !w.transferWhilePolling(g) {
				return
			}
			idle, yields = 0, 0
		case idle < w.spin && !w.mu.Contended():
			if idle++; idle == pollsBeforeCount {
				w.hasNewcomers()
			}
		case w.mayYield(yields, &polling) || g.any.looking():
			// For channelsClosed and backgroundNotNeeded no call waits: the program may compute.
			if yields == 0 && since == 0 && g.what != channelsClosed && g.what != backgroundNotNeeded {
				since = w.rec.Active.Now()
			}
			idle, yieldsToWoken = 0, 0
			yields++
			w.yieldToOthers()
		default:
			if !w.sleep(g) {
				w.rec.WaitedSince(&since)
				return
			}
			idle, yields, yieldsToWoken = 0, w.yieldsAfterSleep(g), 0
		}
	}
	w.rec.WaitedSince(&since)
	w.polling = false
}

// transferWhilePolling moves a block in the goroutine that polls. Meanwhile another one may poll:
// then it returns false.
func (w *waiters) transferWhilePolling(g *goal) bool {
	w.polling = false
	w.passOn()
	w.do.transfer()
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

// yieldToOthers yields the processor to the peers. If these are other processes, it yields to other
// goroutines now and then, and whenever one waits for the lock.
func (w *waiters) yieldToOthers() {
	w.yields++
	goroutines := !w.inProcess && (w.mu.Contended() || w.oneProcessor || w.yields%processYields == 0 && runtime.NumGoroutine() > 1)
	w.mu.Unlock()
	if goroutines {
		runtime.Gosched()
	}
	w.yieldToPeers()
	w.mu.Lock()
}

// yieldToPeers yields the processor to the peers. A goroutine that yields to other processes keeps
// peers that are goroutines from running. The caller must not hold the engine's lock.
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
func (w *waiters) yieldToGoroutines() {
	w.mu.Unlock()
	runtime.Gosched()
	w.mu.Lock()
}

// yield yields to other goroutines, without the lock, and restarts the yield timer. The caller must
// check afterwards whatever others may have changed.
func (w *waiters) yield() {
	w.yieldTimer.Reset()
	w.yieldToGoroutines()
}
