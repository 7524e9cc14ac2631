package proto

import "time"

// While the program computes, no call of it makes progress for its schedules. So a goroutine of the
// engine does, while a schedule is in progress and no call waits. A timer starts it some time after
// a call has left a schedule unfinished: mostly the program waits at once. If the schedule is long,
// the goroutine starts at once, since that costs little in comparison, and the timer of a process
// that sleeps may be late by a millisecond. It polls for a while and then sleeps, as a call that
// waits does. It ends when a call begins to wait: that call then makes progress itself.

// background is the state of that goroutine. It is protected by the engine's lock.
type background struct {
	schedules int           // the number of schedules in progress
	long      int           // the number of these that are long
	timer     *time.Timer   // starts the goroutine; nil until it is needed
	armed     bool          // the timer runs, or its function has not begun
	prompt    func()        // is runPrompt, so that to start it does not allocate
	prompted  bool          // it has been started, and has not begun
	delay     time.Duration // how long the timer runs
	running   bool          // the goroutine exists
	leave     bool          // it is to end, because a call waits
	stop      bool          // it is to end, and must not start again
	ended     chan struct{} // with stop: is closed when it has ended
}

// The shortest and the longest delay. It grows while the goroutine is started in vain, and is the
// shortest again when it was needed.
const (
	minBackgroundDelay = 20 * time.Microsecond
	maxBackgroundDelay = time.Millisecond
)

// takeOverYields is how often a goroutine that begins to wait yields to the goroutine in the
// background, until that has ended its poll. It does not end soon if it does a long step of a
// schedule.
const takeOverYields = 100

// longSchedule is the number of bytes from which a schedule is long. Its messages then take some 10
// us.
const longSchedule = 64 << 10

// startBackground starts the goroutine, or sets the timer, if there are schedules in progress. It
// must be called when a call that waits ends.
func (w *waiters) startBackground() {
	b := &w.background
	switch {
	case b.schedules == 0 || b.running || b.stop || b.prompted:
	case b.long == 0:
		w.startBackgroundLater()
	default:
		if b.prompt == nil {
			b.prompt = w.runPrompt
		}
		b.prompted = true
		go b.prompt()
	}
}

// startBackgroundLater sets the timer.
func (w *waiters) startBackgroundLater() {
	b := &w.background
	if b.armed {
		return
	}
	b.armed = true
	if b.timer == nil {
		b.delay = minBackgroundDelay
		b.timer = time.AfterFunc(time.Hour, w.runBackground)
	}
	b.timer.Reset(b.delay) // after the field is set, which the function reads without the lock
}

// runPrompt is runBackground without the timer.
func (w *waiters) runPrompt() {
	b := &w.background
	w.mu.Lock()
	defer w.mu.Unlock()
	b.prompted = false
	if !b.stop && w.failure.err == nil && b.schedules != 0 && !b.running && !w.polling && !w.sleeping && w.woken == 0 {
		w.pollInBackground()
	}
}

// runBackground makes progress while there are schedules and no call waits. The timer calls it.
func (w *waiters) runBackground() {
	b := &w.background
	if !w.mu.TryLock() { // its holder makes progress
		b.timer.Reset(maxBackgroundDelay)
		return
	}
	defer w.mu.Unlock()
	b.armed = false
	switch {
	case b.stop || b.running || w.failure.err != nil:
		return
	case b.schedules == 0 || w.polling || w.sleeping || w.woken != 0: // await sets the timer again
		b.delay = min(2*b.delay, maxBackgroundDelay)
		return
	}
	b.delay = minBackgroundDelay
	w.pollInBackground()
}

// pollInBackground polls until no schedule is in progress, or a call waits.
func (w *waiters) pollInBackground() {
	b := &w.background
	b.running, b.leave = true, false
	for g := (goal{watch: watch{what: backgroundNotNeeded}}); !w.isOver(&g) && !w.polling; {
		w.pollFor(&g)
	}
	w.do.flush() // the calls of the program may not poll for long
	w.passOn()
	b.running = false
	if b.stop {
		close(b.ended)
	}
	if w.failure.err == nil && b.schedules != 0 && !b.stop {
		// The call that has taken over may not wait for long.
		w.startBackgroundLater()
	}
}

// takeOverPolling asks the goroutine in the background to end, if it polls. It reports whether no
// goroutine polls any more. The lock is released meanwhile.
func (w *waiters) takeOverPolling() bool {
	b := &w.background
	for yields := 0; w.polling && w.inBackground; yields++ {
		b.leave = true // each time: the timer may have started it again
		if yields >= w.takeOver {
			break
		}
		w.yieldToGoroutines()
	}
	return !w.polling
}

// stopBackground returns when the goroutine in the background has ended. It does not start again.
// The caller must hold the lock, which is released meanwhile.
func (w *waiters) stopBackground() {
	b := &w.background
	b.stop = true
	if b.timer != nil {
		b.timer.Stop()
	}
	if !b.running {
		return
	}
	b.ended = make(chan struct{})
	w.rouseAll()
	w.mu.Unlock()
	<-b.ended
	w.mu.Lock()
}
